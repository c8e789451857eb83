/* To be preloaded into the program that is to be profiled. */
#include "mark.h"

__attribute__((constructor)) static void enter(void) { MARK(MARK_PROFILE, 1, 0); }
