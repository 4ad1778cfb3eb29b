// epoll(7), which Swift's Glibc module leaves out. For the load generator alone.
#ifndef CEPOLL_SHIM_H
#define CEPOLL_SHIM_H

#include <sys/epoll.h>

#endif
