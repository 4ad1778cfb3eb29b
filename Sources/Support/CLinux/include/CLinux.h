// Declarations of Linux that Swift cannot import, with one header and one C file per topic.
#include "process_hardening.h"
#include "system_call_filter.h"
#include "command_spawn.h"
#include "process_start.h"
#include "worker_spawn.h"
#include "unix_socket.h"
