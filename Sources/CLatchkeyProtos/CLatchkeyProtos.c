#include "CLatchkeyProtos.h"
