/* A release's way into the database: claim, commit in doubt, node lease, suspension, named attempts.
 *
 * Two daemons serve requests for one payment token. The database has a primary and a synchronous standby. Each commit is
 * written on the primary, then on the standby, then acknowledged. At any point at most FAULTS of these happen: an
 * acknowledgement is lost, a wait for the standby is cancelled, the primary restarts, the standby is promoted, a daemon
 * is killed, a lease ends. Between the steps of one process all others may take theirs.
 *
 * Modelled: Sources/Storage/PostgreSQLLedger (PostgreSQLBatch, PostgreSQLWriter, PostgreSQLDoubt, PostgreSQLNodeLease),
 * Sources/Storage/Ledger/Release.swift (Claim.repeatability).
 *
 * RACE      two nodes; requests 1 and 2 have one caller and reference, request 3 has another caller
 * ATTEMPTS  two nodes; one reference; attempt 2 and attempt 3 name attempt 1 in `after`
 * NAMES     two daemons have the same node name; requests 1 and 2 have different callers
 */
#if !defined(RACE) && !defined(ATTEMPTS) && !defined(NAMES)
#define RACE
#endif
#ifndef FAULTS
#define FAULTS 2
#endif

#ifdef NAMES
#define REQUESTS 2
#define NODE(daemon) 0
#else
#define REQUESTS 3
#define NODE(daemon) daemon
#endif
#define NODES 2

/* The requests. SAME: the second is a repeat of the first, by the same caller with the same reference. FOLLOWS: the
 * second names the first in `after`. */
#ifdef ATTEMPTS
#define SAME(one, other) true
#define FOLLOWS(last, attempt) (last == attempt || (last == 1 && attempt != 1))
#else
#ifdef NAMES
#define SAME(one, other) (one == other)
#else
#define SAME(one, other) (one == other || (one != 3 && other != 3))
#endif
#define FOLLOWS(last, attempt) true
#endif

#define PRIMARY 0
#define STANDBY 1

typedef Content {
    bit suspended;          /* merchant_key.state */
    byte claim;             /* claim.attempt: the request that made the claim; 0 if there is no claim */
    byte last;              /* claim.repeat_attempt, or claim.attempt if it was not repeated */
    byte fence[NODES];      /* node.fence, the fencing number */
    byte batch[NODES]       /* node.last_batch, the identifier of the node's last batch */
}
Content db[2];
/* The leases' ends. A lease ends at any time after its daemon has stopped to renew it, or has only become slow. */
bit leased[NODES];

/* A session on the primary's side. A daemon has two: one may still be in doubt while the next one looks for its outcome. */
#define SESSIONS 5
#define ADMINISTRATOR 4
mtype = { free, open, sent, written, acknowledged, warned, lost };
typedef Session {
    mtype state = free;
    bit attended;           /* the daemon still waits for the answer */
    byte node, fence;       /* of the daemon */
    byte request;           /* the claim or repeat that it writes; 0 for none */
    byte batch;             /* the identifier that it writes; 0 to keep the last one */
    bit excludes;           /* exclude_releases(), for the suspension */
    byte ahead;             /* commits in the log that the standby lacks, up to this one */
    bit late                /* the key was suspended when the commit became visible; no daemon reads this */
}
Session session[SESSIONS];
/* The log records that the standby lacks: node, request, batch, suspension. */
chan log = [8] of { byte, byte, byte, bit };

byte faults = FAULTS;
bit taken[REQUESTS + 1];

/* What callers and operators were told. No daemon reads these. */
bit answered[REQUESTS + 1];
bit suspensionAnswered;
byte firstReleases;

#define inside(i) (session[i].state == open || session[i].state == sent || session[i].state == written)
#define holdsNode(i, n) (inside(i) && i != ADMINISTRATOR && session[i].node == n)
#define nodeIsFree(n) (!holdsNode(0, n) && !holdsNode(1, n) && !holdsNode(2, n) && !holdsNode(3, n))
#define claims(i) (inside(i) && session[i].request != 0)
#ifdef WRONG_CLAIM_NOT_UNIQUE
#define claimIsFree true
#else
#define claimIsFree (!claims(0) && !claims(1) && !claims(2) && !claims(3))
#endif
#define stateIsFree (!inside(ADMINISTRATOR))
#ifdef WRONG_SUSPENSION_WITHOUT_LOCK
#define noBatch true
#else
#define noBatch (!inside(0) && !inside(1) && !inside(2) && !inside(3))
#endif

inline apply(side, name, theRequest, theBatch, theSuspension) {
    if
    :: theRequest != 0 ->
        if
        :: db[side].claim == 0 -> db[side].claim = theRequest
        :: else
        fi;
        db[side].last = theRequest
    :: else
    fi;
    if
    :: theBatch != 0 -> db[side].batch[name] = theBatch
    :: else
    fi;
    if
    :: theSuspension -> db[side].suspended = 1
    :: else
    fi
}

inline forget(i) {
    session[i].attended = 0; session[i].request = 0; session[i].batch = 0; session[i].excludes = 0; session[i].ahead = 0;
    session[i].node = 0; session[i].fence = 0; session[i].late = 0
}

/* The server ends a session, and the daemon sees it if it still waits. */
inline finish(i, how) {
    if
    :: session[i].attended -> session[i].state = how
    :: else -> session[i].state = free; forget(i)
    fi
}

/* The daemon dies or gives up. The server's session goes on until it notices. */
inline abandon(i) {
    session[i].attended = 0;
    if
    :: session[i].state == acknowledged || session[i].state == warned || session[i].state == lost ->
        session[i].state = free; forget(i)
    :: else
    fi
}

/* The commit becomes visible, and its locks end. */
inline reveal(i) {
    apply(PRIMARY, session[i].node, session[i].request, session[i].batch, session[i].excludes)
}

inline lose(i) {
    if
    :: session[i].state == free || session[i].state == lost
    :: else -> finish(i, lost)
    fi
}

inline restart(i) {
    if
    :: session[i].state == written -> reveal(i)
    :: else
    fi;
    lose(i)
}

inline copy(from, to) {
    db[to].suspended = db[from].suspended; db[to].claim = db[from].claim; db[to].last = db[from].last;
    db[to].fence[0] = db[from].fence[0]; db[to].fence[1] = db[from].fence[1];
    db[to].batch[0] = db[from].batch[0]; db[to].batch[1] = db[from].batch[1]
}

/* The primary writes the commit. A daemon without the lease commits nothing. */
inline put(i) {
    printf("session %d: commit is written\n", i);
    assert(i == ADMINISTRATOR || session[i].fence == db[PRIMARY].fence[session[i].node]);    /* lease */
    log!session[i].node, session[i].request, session[i].batch, session[i].excludes;
    session[i].ahead = len(log); session[i].state = written
}

#define STEPS(i) \
    :: d_step { session[i].state == sent -> put(i) } \
    :: d_step { session[i].state == written && session[i].ahead == 0 -> \
        session[i].late = db[PRIMARY].suspended; reveal(i); finish(i, acknowledged) } \
    :: d_step { session[i].state == written && session[i].ahead != 0 && faults != 0 -> \
        printf("session %d: the wait for the standby is cancelled\n", i); \
        faults--; reveal(i); finish(i, warned) } \
    :: d_step { !session[i].attended && (session[i].state == open || session[i].state == sent) -> \
        session[i].state = free; forget(i) }

#define REPLICATED(i) \
        if \
        :: session[i].ahead != 0 -> session[i].ahead-- \
        :: else \
        fi

active proctype Server() {
    byte n, request, batch;
    bit suspends;
end:
    do
    STEPS(0)
    STEPS(1)
    STEPS(2)
    STEPS(3)
    STEPS(4)
    :: d_step { nempty(log) ->
        log?n, request, batch, suspends;
        apply(STANDBY, n, request, batch, suspends);
        REPLICATED(0); REPLICATED(1); REPLICATED(2); REPLICATED(3); REPLICATED(4);
        n = 0; request = 0; batch = 0; suspends = 0 }
    /* The primary crashes and starts again. What was written becomes visible without the standby's acknowledgement. */
    :: d_step { faults != 0 -> faults--; printf("the primary restarts\n");
        restart(0); restart(1); restart(2); restart(3); restart(4) }
    /* The primary is lost, and the standby is promoted. A further standby is made from it. */
    :: d_step { faults != 0 -> faults--; printf("the standby is promoted\n");
        do
        :: nempty(log) -> log?n, request, batch, suspends
        :: empty(log) -> break
        od;
        lose(0); lose(1); lose(2); lose(3); lose(4);
        copy(STANDBY, PRIMARY);
        /* Nothing answered is lost. */
        assert(!suspensionAnswered || db[PRIMARY].suspended);                                          /* durable */
        assert(!(answered[1] || answered[2] || answered[REQUESTS]) || db[PRIMARY].claim != 0);         /* durable */
        n = 0; request = 0; batch = 0; suspends = 0 }
    od
}

/* Sends the commit. If the session was lost before, nothing arrives. */
inline send(i) {
    d_step {
        if
        :: session[i].state == open -> session[i].state = sent
        :: else
        fi }
}

/* The release leaves the daemon. */
inline answer(r, isFirst, wasSuspended) {
    printf("request %d is answered: released\n", r);
    /* One caller has the first release, and only its own repeats follow. */
    assert(!isFirst || firstReleases == 0);                                                             /* once */
    firstReleases = firstReleases + isFirst;
    assert(r == 1 || !answered[1] || SAME(1, r));                                                       /* once */
    assert(r == 2 || !answered[2] || SAME(2, r));                                                       /* once */
    assert(r == REQUESTS || !answered[REQUESTS] || SAME(REQUESTS, r));                                  /* once */
    /* Of two released attempts one names the other. */
    assert(r == 1 || !answered[1] || FOLLOWS(1, r) || FOLLOWS(r, 1));                                   /* attempts */
    assert(r == 2 || !answered[2] || FOLLOWS(2, r) || FOLLOWS(r, 2));                                   /* attempts */
    assert(r == REQUESTS || !answered[REQUESTS] || FOLLOWS(REQUESTS, r) || FOLLOWS(r, REQUESTS));       /* attempts */
    assert(db[PRIMARY].claim != 0 && db[STANDBY].claim != 0);                                           /* durable */
    /* The key was not suspended when the commit was made that permits the answer. */
    assert(!wasSuspended);                                                                              /* suspension */
    answered[r] = 1
}

/* The sessions of daemon d: 2 * d and 2 * d + 1. */
proctype Daemon(byte d) {
    byte fence, request, batch, retry, me;
    bit first, present, suspended, late;

start:
    /* PostgreSQLNodeLease.take: its commit is acknowledged, or the daemon does not start. */
    skip;
endWithoutLease:
    d_step { !leased[NODE(d)] && nodeIsFree(NODE(d)) && empty(log) ->
        db[PRIMARY].fence[NODE(d)]++; db[STANDBY].fence[NODE(d)] = db[PRIMARY].fence[NODE(d)];
        fence = db[PRIMARY].fence[NODE(d)];
        printf("daemon %d takes the name of node %d, fencing number %d\n", d, NODE(d), fence);
        leased[NODE(d)] = 1 }
idle:
    atomic {
        if
        :: !taken[1] -> request = 1
        :: !taken[2] -> request = 2
        :: !taken[REQUESTS] -> request = REQUESTS
        :: taken[1] && taken[2] && taken[REQUESTS] -> goto over
        fi;
        taken[request] = 1; retry = 0
    }
write:
    /* A request whose commit was not made is done again once, with another identifier. */
    batch = 2 * request + retry;
    me = 2 * d;
    if
    :: session[me].state == free
    :: session[me].state != free && session[me + 1].state == free -> me = me + 1
    fi;
#ifdef WRONG_ANSWERS_FIRST
    atomic {
        if
        :: db[PRIMARY].claim == 0 && !db[PRIMARY].suspended ->
            printf("request %d is answered: released\n", request);
            assert(firstReleases == 0);                                                                 /* once */
            firstReleases++
        :: else
        fi }
#endif
    /* The transaction's first round trip: the node's row, ledger_state, the keys and the claims are locked. */
    atomic {
        nodeIsFree(NODE(d)) && stateIsFree && claimIsFree;
#ifndef WRONG_FENCING_NUMBER_IGNORED
        if
        :: db[PRIMARY].fence[NODE(d)] != fence -> goto over
        :: else
        fi;
#endif
        first = db[PRIMARY].claim == 0;
        if
        :: db[PRIMARY].suspended -> goto idle
        :: !db[PRIMARY].suspended && !first && !SAME(db[PRIMARY].claim, request) -> goto idle
#ifdef WRONG_FIRST_ATTEMPT_COMPARED
        :: !db[PRIMARY].suspended && !first && SAME(db[PRIMARY].claim, request) && !FOLLOWS(db[PRIMARY].claim, request) ->
            goto idle
        :: !db[PRIMARY].suspended && (first || (SAME(db[PRIMARY].claim, request) && FOLLOWS(db[PRIMARY].claim, request)))
#else
        :: !db[PRIMARY].suspended && !first && SAME(db[PRIMARY].claim, request) && !FOLLOWS(db[PRIMARY].last, request) ->
            goto idle
        :: !db[PRIMARY].suspended && (first || (SAME(db[PRIMARY].claim, request) && FOLLOWS(db[PRIMARY].last, request)))
#endif
        fi;
        session[me].node = NODE(d); session[me].fence = fence; session[me].attended = 1;
        session[me].request = request; session[me].batch = batch;
        printf("node %d, session %d: begins request %d as batch %d\n", NODE(d), me, request, batch);
        session[me].state = open
    }
    send(me);
    if
    :: d_step { session[me].state == acknowledged ->
        answer(request, first, session[me].late); session[me].state = free; forget(me) }; goto idle
#ifdef WRONG_WARNING_ACKNOWLEDGES
    :: d_step { session[me].state == warned -> session[me].state = free; forget(me);
        printf("request %d is answered: released\n", request); answered[request] = 1 }; goto idle
#else
    :: d_step { session[me].state == warned -> session[me].state = free; forget(me) }
#endif
    :: d_step { session[me].state == lost -> session[me].state = free; forget(me) }
    /* The deadline, or a lost connection. The server's session goes on. */
    :: d_step { (session[me].state == sent || session[me].state == written) && faults != 0 ->
        printf("session %d: the connection is lost\n", me);
        faults--; session[me].attended = 0 }
    :: d_step { faults != 0 -> faults--; abandon(me) }; goto killed
    fi;

doubt:
    me = 2 * d;
    if
    :: session[me].state == free
    :: session[me].state != free && session[me + 1].state == free -> me = me + 1
    fi;
    atomic {
#ifdef WRONG_STANDBY_BELIEVED
        present = db[STANDBY].batch[NODE(d)] == batch;
        suspended = db[STANDBY].suspended;
        if
        :: present
        :: else -> goto absent
        fi;
        nodeIsFree(NODE(d)) && stateIsFree;
#else
#ifdef WRONG_NODE_NOT_LOCKED
        stateIsFree;
#else
        nodeIsFree(NODE(d)) && stateIsFree;
#endif
#endif
#ifndef WRONG_FENCING_NUMBER_IGNORED
        if
        :: db[PRIMARY].fence[NODE(d)] != fence -> goto over
        :: else
        fi;
#endif
#ifndef WRONG_STANDBY_BELIEVED
        present = db[PRIMARY].batch[NODE(d)] == batch;
        suspended = db[PRIMARY].suspended;
#endif
        session[me].node = NODE(d); session[me].fence = fence; session[me].attended = 1;
        printf("node %d, session %d: reads the outcome of batch %d: present %d, suspended %d\n", NODE(d), me, batch, present,
            suspended);
        session[me].state = open
    }
#ifdef WRONG_PRESENT_WITHOUT_COMMIT
    d_step { session[me].state = free; forget(me) };
    goto resolved;
#endif
    send(me);
    if
    :: d_step { session[me].state == acknowledged -> late = session[me].late; session[me].state = free; forget(me) }
    :: d_step { session[me].state == warned || session[me].state == lost -> session[me].state = free; forget(me) }; goto doubt
    :: d_step { (session[me].state == sent || session[me].state == written) && faults != 0 ->
        faults--; session[me].attended = 0 }; goto doubt
    :: d_step { faults != 0 -> faults--; abandon(me) }; goto killed
    fi;
resolved:
    if
#ifdef WRONG_KEY_NOT_EVALUATED_AGAIN
    :: present -> d_step { answer(request, first, late) }
#else
    :: present && !suspended -> d_step { answer(request, first, late) }
    :: present && suspended -> skip
#endif
    :: !present -> goto absent
    fi;
    goto idle;
absent:
    /* Absent is final: the commit is on neither server, and no session can still make it. */
    skip;
    d_step {
        printf("node %d: batch %d is absent\n", NODE(d), batch);
        assert(db[PRIMARY].batch[NODE(d)] != batch);                                                    /* absent */
        assert(!(inside(0) && session[0].batch == batch) && !(inside(1) && session[1].batch == batch)); /* absent */
        assert(!(inside(2) && session[2].batch == batch) && !(inside(3) && session[3].batch == batch))  /* absent */
    }
    if
    :: retry == 0 -> retry = 1; goto write
    :: retry == 1 -> goto idle
    fi;
/* kill -9. The next daemon of this name knows nothing, and waits until the lease has ended. */
killed:
    skip;
    d_step { leased[NODE(d)] = 0; fence = 0; me = 0;  request = 0; batch = 0; retry = 0; first = 0; present = 0; suspended = 0; late = 0 }
    goto start;
over:
    skip
}

/* suspends the key, in a transaction that excludes all batches. */
proctype Administrator() {
    d_step { stateIsFree && noBatch -> session[ADMINISTRATOR].attended = 1; session[ADMINISTRATOR].excludes = 1; session[ADMINISTRATOR].state = open }
    send(ADMINISTRATOR);
    if
    :: d_step { session[ADMINISTRATOR].state == acknowledged -> session[ADMINISTRATOR].state = free; forget(ADMINISTRATOR);
        printf("the suspension is answered\n"); suspensionAnswered = 1 }
    :: d_step { session[ADMINISTRATOR].state == warned || session[ADMINISTRATOR].state == lost ->
        session[ADMINISTRATOR].state = free; forget(ADMINISTRATOR) }
    fi
}

/* A lease ends when its daemon does not renew it in time. */
active proctype Clock() {
end:
    do
    :: d_step { leased[0] && faults != 0 -> faults--; leased[0] = 0 }
    :: d_step { leased[1] && faults != 0 -> faults--; leased[1] = 0 }
    od
}

init {
    atomic { run Daemon(0); run Daemon(1); run Administrator() }
}
