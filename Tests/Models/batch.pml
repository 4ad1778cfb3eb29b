/* Batches of several releases in a shared database: the order of their statements and locks, and the two names of a
 * Google Pay claim.
 *
 * Each of two nodes has a batch of two releases, with any names and messageIds of a few. The statements of a batch take
 * one step for each row that they insert or lock. A row that is not committed makes other batches wait for its names. At
 * any point at most FAULTS of these happen: a connection is lost before the commit, a daemon is killed. A node may also
 * suspend the key instead. A commit is one step here: commit.pml has its parts. Prunings exclude batches as a
 * suspension does.
 *
 * Modelled: Sources/Storage/PostgreSQLLedger (PostgreSQLBatch, PostgreSQLWriter.fail, exclude_releases in
 * PostgreSQLTables, claim_by_message in PostgreSQLTablesGooglePay), Sources/Storage/Ledger/Claim.swift.
 *
 * APART     each messageId has one message, as Google gives them; for Apple Pay a name has no messageId to share
 * CROSSED   any message may have any messageId
 */
#if !defined(APART) && !defined(CROSSED)
#define APART
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#define NAMES 3

/* claim: the row of each name. `holder` is the number of the node, from 1, whose transaction is not committed. */
typedef Row { byte by, message, holder, locked }
Row row[NAMES + 1];

/* The requests: 1 and 2 at the first node, 3 and 4 at the second, in the order of their arrival. */
typedef Request { byte name, message; bit isInserted; byte verdict }
Request request[5];
bit oneCaller;              /* all requests have the same caller and reference; else no two have */
mtype = { released, repeated, replayed, keyNotActive };

bit suspended, shares[2], excludes[2];
bit waits[2];               /* the node's session waits for the other's */
byte faults = FAULTS;

/* What callers were told, and the requests whose claims are committed. No daemon reads these. */
bit answered[5], claimed[5];

#define ME (n + 1)
#define OTHER (2 - n)
#define same(one, other) (oneCaller && request[one].name == request[other].name)

#ifdef WRONG_MESSAGE_NOT_UNIQUE
#define conflicts(k, r) (row[k].by != 0 && k == request[r].name)
#else
#define conflicts(k, r) (row[k].by != 0 && (k == request[r].name || row[k].message == request[r].message))
#endif
#define isTaken(r) (conflicts(1, r) || conflicts(2, r) || conflicts(3, r))
#define conflictsWithOther(k, r) (conflicts(k, r) && row[k].holder == OTHER)
#define isInDoubt(r) (conflictsWithOther(1, r) || conflictsWithOther(2, r) || conflictsWithOther(3, r))

/* A claim that rules out the release: another message's with its messageId, or its own of another caller. */
#define isRuledOutBy(k, r) (row[k].by != 0 && row[k].holder == 0 && claimed[row[k].by] && row[k].by != r && \
    ((k != request[r].name && row[k].message == request[r].message) || (k == request[r].name && !same(row[k].by, r))))

/* The locks of a transaction end. */
inline unlock() {
    shares[n] = 0; excludes[n] = 0; waits[0] = 0; waits[1] = 0;
    if :: row[1].locked == ME -> row[1].locked = 0 :: else fi;
    if :: row[2].locked == ME -> row[2].locked = 0 :: else fi;
    if :: row[3].locked == ME -> row[3].locked = 0 :: else fi
}

inline undo(k) {
    if
    :: row[k].holder == ME -> row[k].by = 0; row[k].message = 0; row[k].holder = 0
    :: else
    fi
}

inline rollBack() {
    undo(1); undo(2); undo(3);
    request[first].isInserted = 0; request[second].isInserted = 0; request[first].verdict = 0; request[second].verdict = 0;
    known[0] = 0; known[1] = 0;
    unlock()
}

inline keep(k) {
    if
    :: row[k].holder == ME -> row[k].holder = 0
    :: else
    fi
}

/* The session waits for the other node's. If that one waits for this one, PostgreSQL ends one of the two. */
#ifdef APART
#define NOTICE(condition) \
    :: d_step { condition && !waits[n] -> waits[n] = 1; printf("node %d waits\n", n); \
        assert(!waits[1 - n]) }                                                                         /* apart */
#else
#define NOTICE(condition) \
    :: d_step { condition && !waits[n] -> waits[n] = 1; printf("node %d waits\n", n) } \
    :: d_step { condition && waits[n] && waits[1 - n] -> printf("node %d: deadlock\n", n); rollBack() }; goto failed
#endif

/* INSERT … ON CONFLICT DO NOTHING, for one row. It waits while it is not known whether another row with one of the names is
 * committed. */
inline insert(r) {
    do
    :: d_step { !isInDoubt(r) ->
        waits[n] = 0;
        if
        :: !isSuspended && !isTaken(r) -> request[r].isInserted = 1;
            row[request[r].name].by = r; row[request[r].name].message = request[r].message; row[request[r].name].holder = ME;
            printf("node %d inserts message %d with messageId %d\n", n, request[r].name, request[r].message)
#ifdef WRONG_NAMES_IN_TWO_ROWS
        :: !isSuspended && isTaken(r) && row[request[r].name].by == 0 ->
            row[request[r].name].by = r; row[request[r].name].message = 0; row[request[r].name].holder = ME
#endif
        :: else
        fi }; break
    NOTICE(isInDoubt(r))                                                                              /* apart */
    od;
    skip
}

/* SELECT … FOR UPDATE, for one row that the statement sees. */
inline lock(r, known) {
    do
    :: d_step { known == 0 || row[request[r].name].locked != OTHER ->
        waits[n] = 0;
        if
        :: known != 0 -> row[request[r].name].locked = ME
        :: else
        fi }; break
    NOTICE(known != 0 && row[request[r].name].locked == OTHER)                                        /* apart */
    od;
    skip
}

/* The claims that a statement sees when it begins: those of committed transactions. */
inline see() {
    known[0] = (row[request[one].name].holder == 0 -> row[request[one].name].by : 0);
    known[1] = (row[request[other].name].holder == 0 -> row[request[other].name].by : 0);
    printf("node %d reads claims by requests %d and %d\n", n, known[0], known[1])
}

/* BatchClaims.decide, for one release. A claim of this batch counts once its release is decided. */
inline decide(r, claim) {
    if
    :: isSuspended -> request[r].verdict = keyNotActive
    :: !isSuspended && request[r].isInserted -> request[r].verdict = released
    :: else ->
        if
        :: claim == 0 && row[request[r].name].holder == ME && row[request[r].name].by < r -> byte_ = row[request[r].name].by
        :: else -> byte_ = claim
        fi;
        if
        :: byte_ != 0 && same(byte_, r) -> request[r].verdict = repeated
#ifdef WRONG_REPEATS_BY_MESSAGE
        :: (byte_ == 0 || !same(byte_, r)) && oneCaller && isTaken(r) -> request[r].verdict = repeated
        :: (byte_ == 0 || !same(byte_, r)) && !(oneCaller && isTaken(r)) -> request[r].verdict = replayed
#else
        :: else -> request[r].verdict = replayed
#endif
        fi;
        byte_ = 0
    fi
}

#define isGranted(r) (request[r].verdict == released || request[r].verdict == repeated)
/* Two releases may share a name only as a release and its repeats. A new message is never a repeat of another. */
#define agrees(r, q) (q == r || !answered[q] || same(q, r) || \
    (request[q].name != request[r].name && request[q].message != request[r].message))

inline answer(r) {
    printf("request %d (message %d, messageId %d) is answered: %e\n", r, request[r].name, request[r].message, request[r].verdict);
    if
    :: isGranted(r) ->
        assert(agrees(r, 1) && agrees(r, 2) && agrees(r, 3) && agrees(r, 4));                           /* names */
        assert(row[request[r].name].by == r || same(row[request[r].name].by, r));                       /* names */
        answered[r] = 1
    :: request[r].verdict == replayed ->
        assert(isRuledOutBy(1, r) || isRuledOutBy(2, r) || isRuledOutBy(3, r))                          /* members */
    :: else
    fi
}

proctype Node(byte n) {
    byte first, second, one, other, known[2], byte_;
    bit isSuspended, isRepeated;

    d_step { first = 2 * n + 1; second = 2 * n + 2; one = first; other = second;
#ifndef WRONG_ORDER_OF_ARRIVAL
        /* ORDER BY r.transaction_id, r.position */
        if
        :: request[second].name < request[first].name -> one = second; other = first
        :: else
        fi
#endif
    }
    if
    :: goto begin
    :: goto exclude
    fi;
begin:
    skip;
    /* The node's row is its own. ledger_state is locked in shared mode, and so are the keys. */
    d_step { !excludes[1 - n] -> shares[n] = 1; isSuspended = suspended;
#ifdef WRONG_ONE_SNAPSHOT
        see()
#endif
    }
    insert(one);
    insert(other);
#ifndef WRONG_ONE_SNAPSHOT
    d_step { see() }
#endif
    lock(one, known[0]);
    lock(other, known[1]);
    d_step {
        decide(first, known[(one == first -> 0 : 1)]);
        decide(second, known[(one == first -> 1 : 0)]) }
#ifdef WRONG_CONFLICT_FAILS_BATCH
    if
    :: d_step { request[first].verdict == replayed || request[second].verdict == replayed -> rollBack();
        request[first].verdict = replayed; request[second].verdict = replayed }; goto answers
    :: else
    fi;
#endif
    if
    :: d_step {
        printf("node %d commits\n", n);
        assert(!suspended || !(isGranted(first) || isGranted(second)));                                 /* suspension */
        keep(1); keep(2); keep(3); unlock();
        claimed[first] = request[first].isInserted; claimed[second] = request[second].isInserted }
    :: d_step { faults != 0 -> faults--; printf("node %d: no commit\n", n); rollBack() }; goto failed
    :: d_step { faults != 0 -> faults--; printf("node %d is killed\n", n); rollBack() }; goto over
    fi;
#ifdef WRONG_CONFLICT_FAILS_BATCH
answers:
    skip;
#endif
    d_step { answer(first); answer(second) }
    goto over;
failed:
    /* Nothing of the batch is committed. It is done again once. */
    if
    :: !isRepeated -> isRepeated = 1; goto begin
    :: isRepeated -> goto over
    fi;
exclude:
    skip;
#ifdef WRONG_LOCK_UPGRADED
    d_step { !excludes[1 - n] -> shares[n] = 1 }
#endif
    do
    :: d_step { !excludes[1 - n] && !shares[1 - n] -> waits[n] = 0; excludes[n] = 1 }; break
    :: d_step { (excludes[1 - n] || shares[1 - n]) && !waits[n] -> waits[n] = 1; printf("node %d waits for the tables\n", n);
        assert(!waits[1 - n]) }                                                                         /* apart */
    od;
    skip;
    d_step { suspended = 1; printf("node %d suspends the key\n", n); unlock() }
over:
    skip
}

inline choose(r) {
    if
    :: request[r].name = 1
    :: request[r].name = 2
    :: request[r].name = 3
    fi;
#ifdef CROSSED
    if
    :: request[r].message = 1
    :: r != 1 -> request[r].message = 2     /* The messageIds' order is of no importance. */
    fi
#else
    request[r].message = request[r].name
#endif
}

#define isOne(r, q) (request[r].name != request[q].name || request[r].message == request[q].message)

init {
    atomic {
        choose(1); choose(2); choose(3); choose(4);
        if
        :: oneCaller = 0
        /* Only one signed message has a name, so that a repeat has its messageId. */
        :: isOne(1, 2) && isOne(1, 3) && isOne(1, 4) && isOne(2, 3) && isOne(2, 4) && isOne(3, 4) -> oneCaller = 1
        fi;
        run Node(0); run Node(1) }
}
