#pragma once

/// Asks the processor for the line of memory at `address`, which will soon be written. Never faults, whatever it is
/// given. Source: GCC manual, "Other Built-in Functions"; Swift has no word for it.
static inline void latchkey_prefetch(const void *address) { __builtin_prefetch(address, 1); }
