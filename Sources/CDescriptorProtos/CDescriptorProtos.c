#include "CDescriptorProtos.h"
