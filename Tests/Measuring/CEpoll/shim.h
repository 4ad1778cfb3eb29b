// epoll(7), which Swift's Glibc module omits. Only for the load generator.
#ifndef CEPOLL_SHIM_H
#define CEPOLL_SHIM_H

#include <sys/epoll.h>

#endif
