/* An older database in place of the lost one: hold, comparison of the server, acceptance and fence.
 *
 * Two running daemons share a database. At some moment a copy of it is made, and later it replaces the database, on another
 * server or timeline. Requests 1 and 2 have different callers and offer the same payment token. A daemon remembers the end
 * of its own record. A commit is one step here: commit.pml has its parts. But its acknowledgement may be lost.
 *
 * Time passes in steps, of which a window has one. Only the copy, the loss and the steps of time are chosen freely; the
 * operator accepts whenever there is a hold, or once without one (--without-finding).
 *
 * Modelled: PostgreSQLRestores.swift, PostgreSQLTablesVersion2.swift (put_hold, accept_restore, compare_server),
 * PostgreSQLTransaction.swift (isHeld), Sources/Daemon/UsageRecording/RestoredLedger.swift (detect), Release.swift.
 */
#define WINDOW 1
#define LAST_MOMENT 4
#define SIGNED 1

typedef Content {
    byte claim;             /* the request that was released; 0 for none */
    byte sequence[2];       /* the end of each node's record */
    byte batch[2];          /* node.last_batch */
    bit leased[2];          /* node.lease_until is later than now */
    byte compared[2];       /* node.timeline: the server on which the node has compared */
    byte server;            /* ledger_state.timeline: the server on which all live nodes have compared */
    bit held;               /* ledger_state.held_since */
    byte fence              /* ledger_state.restore_fence */
}
Content db, backup;
byte here = 1;              /* the server's timeline */
byte now;
bit hasCopy, isRestored, acceptedAlone;
bit taken[3];

/* What callers were told. No daemon reads it. */
byte answered;

inline copy(from, to) {
    to.claim = from.claim; to.server = from.server; to.held = from.held; to.fence = from.fence;
    to.sequence[0] = from.sequence[0]; to.sequence[1] = from.sequence[1];
    to.batch[0] = from.batch[0]; to.batch[1] = from.batch[1];
    to.leased[0] = from.leased[0]; to.leased[1] = from.leased[1];
    to.compared[0] = from.compared[0]; to.compared[1] = from.compared[1]
}

#define permits(n) (db.sequence[n] == known || db.sequence[n] == alsoKnown)

/* Each transaction renews the lease and compares the end of the record. An end before the known one holds all nodes. */
inline checked(n) {
#ifdef WRONG_END_NOT_REMEMBERED
    isOlder = 0;
#else
    isOlder = !permits(n);
#endif
    if
    :: isOlder -> printf("node %d finds the database older than its record, and holds all nodes\n", n); db.held = 1; known = db.sequence[n]; alsoKnown = known
    :: else
    fi;
    db.leased[n] = 1
}

#ifdef WRONG_SERVER_NOT_COMPARED
#define isHeld (db.held)
#else
#define isHeld (db.held || db.server != here)
#endif
#ifdef WRONG_NO_FENCE
#define isFenced false
#else
#define isFenced (SIGNED < db.fence)
#endif
#ifdef WRONG_FENCE_WITHOUT_WINDOW
#define FENCE now
#else
#define FENCE (now + WINDOW)
#endif

inline answer(node) {
    printf("node %d answers request %d: released\n", node, request);
    assert(!answered);      /* restored */
    answered = request
}

proctype Daemon(byte n) {
    byte known, alsoKnown, start, finish, request, identifier;
    bit isOlder;

end:
    do
    /* A request within the window, on either node. */
    :: atomic { now <= SIGNED + WINDOW && now + WINDOW >= SIGNED && (!taken[1] || !taken[2]) ->
        if
        :: !taken[1] -> request = 1
        :: !taken[2] -> request = 2
        fi;
        taken[request] = 1;
        checked(n);
        if
        :: isOlder || isHeld || db.claim != 0 || isFenced -> request = 0
        :: else ->
            printf("node %d commits request %d\n", n, request);
            identifier = request;
            start = db.sequence[n]; finish = start + 1;
            db.claim = request; db.sequence[n] = finish; db.batch[n] = identifier
        fi };
        if
        :: request == 0
        /* The commit was acknowledged. */
        :: d_step { request != 0 -> known = finish; alsoKnown = finish; answer(n); request = 0 }
        /* The commit is in doubt. */
        :: request != 0 -> known = start; alsoKnown = finish;
            d_step {
                isOlder = !permits(n);
                if
                :: db.batch[n] == identifier && db.sequence[n] == finish && !db.held ->
                    answer(n); known = finish; alsoKnown = finish
                :: isOlder -> checked(n)
                :: else -> known = db.sequence[n]; alsoKnown = known
                fi;
                db.leased[n] = 1; request = 0 }
        fi
    /* Another record of this node. */
    :: d_step { db.sequence[n] < 3 && !isRestored -> checked(n);
        if
        :: !isOlder -> db.sequence[n]++; known = db.sequence[n]; alsoKnown = known
        :: else
        fi }
    /* LedgerGate.detect, once a second: the server is another one. */
    :: d_step { (db.server != here || db.compared[n] != here) && !db.held -> checked(n);
        if
        :: isOlder
#ifndef WRONG_ENDED_LEASE_NOT_AWAITED
        /* awaitsNodes: the other daemon runs, so it renews its lease here before this one stops waiting. */
        :: !isOlder && !db.leased[1 - n] && db.compared[1 - n] != here
#endif
        :: else -> printf("node %d compares its record with server %d\n", n, here); db.compared[n] = here;
            if
            :: db.leased[1 - n] && db.compared[1 - n] != here
            :: else -> printf("server %d counts as compared by all live nodes\n", here); db.server = here
            fi
        fi }
    /* The renewal of the lease. */
    :: d_step { !permits(n) && !db.held -> checked(n) }
    od
}

proctype Operator() {
end:
    do
    :: d_step { !hasCopy -> printf("copy\n"); copy(db, backup); hasCopy = 1 }
    /* The servers are lost. To put the copy in their place takes time. */
    :: atomic { hasCopy && !isRestored && now < LAST_MOMENT -> printf("the copy replaces the database\n"); copy(backup, db); isRestored = 1; here++; now++;
        /* In a copy that is older than a lease, all leases have ended. */
        if
        :: true
        :: db.leased[0] = 0; db.leased[1] = 0
        fi }
    :: d_step { db.held -> printf("acceptance\n"); db.held = 0; db.fence = FENCE }
    :: d_step { isRestored && !acceptedAlone && !db.held && db.server != here -> acceptedAlone = 1; db.fence = FENCE }
    :: d_step { now < LAST_MOMENT -> now++ }
    od
}

init {
    d_step {
        db.server = 1; db.compared[0] = 1; db.compared[1] = 1; db.leased[0] = 1; db.leased[1] = 1 }
    atomic { run Daemon(0); run Daemon(1); run Operator() }
}
