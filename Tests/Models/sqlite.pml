/* The ledger in one SQLite file: group commit, a commit that fails, kill -9 and power cuts at any step, a restored copy.
 *
 * Requests 1 and 2 have different callers and offer one payment token, request 3 offers another. Each is made up to
 * twice. The writer commits one or two at a time. The disk has what was synced, and after a power cut also any beginning of the log
 * that was not. SQLite's log is valid up to its last complete commit. At any point at most FAULTS of these happen: the
 * daemon is killed, the power fails, a commit fails. A content is a set of claims, one bit for each request.
 *
 * Modelled: Sources/Storage/SQLiteFiles (SQLiteWriter, CommitBatch, DurableSQLite), Sources/Storage/SQLiteLedger
 * (SQLiteUses, WALCheckpointing, SQLiteRestoreMark), LedgerFileRestore in Sources/Storage/OfflineLedger/Restore.
 */
#ifndef FAULTS
#define FAULTS 2
#endif

byte fileOnDisk, file;      /* the database file: what is synced, and what the system has */
byte log;                   /* the log's commits that are synced */
byte recovered;             /* the log's commits that are valid, and which a daemon found at its start: not synced */
byte tail;                  /* a commit that was written, but neither synced nor made visible */
bit runs, crashed, isMarked, isFenced, hasCopy, isRestored;
byte backup;
byte asked[4];
byte faults = FAULTS;

/* What callers were told, as a set. The daemon does not read it. */
byte answered;

#define CLAIM(r) (1 << (r - 1))
#define TOKEN(r) (r == 3 -> 4 : 3)
#define visible (file | log | recovered)

inline answer(r, isGranted) {
    if
    :: r != 0 && isGranted ->
        printf("request %d is answered: released\n", r);
        assert(isRestored || !(answered & TOKEN(r) & ~CLAIM(r)));                                       /* once */
        assert(!isRestored || !(answered & TOKEN(r) & ~CLAIM(r)));                                      /* restored */
        /* What is answered is on the disk. */
        assert((fileOnDisk | log) & CLAIM(r));                                                          /* durable */
        answered = answered | CLAIM(r)
    :: else
    fi
}

/* SQLiteUses.decide. `found` is what the transaction reads, with the writes of the batch's earlier members. */
inline decide(r, found, grants) {
    if
    :: r == 0 || isMarked -> grants = 0
    :: r != 0 && !isMarked && (found & CLAIM(r)) -> grants = 1
    :: r != 0 && !isMarked && !(found & TOKEN(r)) && !isFenced -> grants = 1; claims = claims | CLAIM(r)
    :: else -> grants = 0
    fi
}

active proctype Daemon() {
    byte one, two, claims;
    bit grantsOne, grantsTwo;

start:
    {
        /* The commits that a killed daemon left in the log are valid. Nothing has synced them. */
        d_step { !runs -> runs = 1; recovered = recovered | tail; tail = 0; printf("the daemon starts with claims %d\n", visible) }
endIdle:
        do
        :: atomic { asked[1] < 2 || asked[2] < 2 || asked[3] < 2 ->
            if
            :: asked[1] < 2 -> one = 1
            :: asked[2] < 2 -> one = 2
            :: asked[3] < 2 -> one = 3
            fi;
            asked[one]++;
            if
            :: two = 0
            :: one < 2 && asked[2] < 2 -> two = 2
            :: one < 3 && asked[3] < 2 -> two = 3
            fi;
            if
            :: two != 0 -> asked[two]++
            :: else
            fi }
            d_step {
                decide(one, visible, grantsOne);
#ifdef WRONG_BATCH_NOT_READ
                decide(two, visible, grantsTwo);
#else
                decide(two, (visible | claims), grantsTwo);
#endif
                printf("batch of requests %d and %d: granted %d and %d\n", one, two, grantsOne, grantsTwo);
#ifdef WRONG_ANSWERS_BEFORE_COMMIT
                answer(one, grantsOne);
#endif
            }
            /* The next transaction overwrites one that failed. */
            d_step { tail = claims }
            if
#ifdef WRONG_LOG_NOT_SYNCED
            :: d_step { printf("commit\n"); recovered = recovered | tail; tail = 0 }
#else
            :: d_step { printf("commit\n"); log = log | recovered | tail; recovered = 0; tail = 0 }
#endif
            :: d_step { faults != 0 -> faults--; printf("the commit fails\n");
                /* The answer is what the database proves, and a commit that was not synced is not visible there. */
#ifndef WRONG_FAILED_COMMIT_FOUND
                grantsOne = 0; grantsTwo = 0
#endif
            }
            fi;
            /* An error after the commit gives the same answers, since the claims are found. */
            d_step { answer(one, grantsOne) }
            d_step { answer(two, grantsTwo); one = 0; two = 0; claims = 0; grantsOne = 0; grantsTwo = 0 }
        od
    } unless { d_step { !runs && crashed -> crashed = 0; one = 0; two = 0; claims = 0; grantsOne = 0; grantsTwo = 0 } }
    goto start
}

/* WALCheckpointing: the log is synced and copied to the file, the file is synced, and a new log begins. */
active proctype Checkpoint() {
    byte copied;
end:
    do
    :: d_step { runs && (log | recovered) != 0 && copied == 0 ->
        log = log | recovered; recovered = 0; file = file | log; copied = log }
#ifdef WRONG_FILE_NOT_SYNCED
    :: d_step { runs && copied != 0 -> copied = 0;
#else
    :: d_step { runs && copied != 0 -> fileOnDisk = file; copied = 0;
#endif
        if
        :: (file & log) == log && tail == 0 -> printf("a new log begins\n"); log = 0
        :: true
        fi }
    :: d_step { !runs && copied != 0 -> copied = 0 }
    od
}

/* kill -9: the system keeps what was written, or a part of the last commit, which is then not valid. */
inline stop() {
    runs = 0; crashed = 1;
    if
    :: tail = 0
    :: true
    fi
}

active proctype World() {
end:
    do
    :: atomic { runs && faults != 0 -> faults--; printf("the daemon is killed\n"); stop() }
    :: atomic { faults != 0 && runs -> faults--; printf("the power fails\n"); stop();
        file = fileOnDisk;
        if
        :: recovered = 0; tail = 0
        :: tail = 0
        :: true
        fi;
        /* After its start, the system has of the log what the disk has. */
        log = log | recovered | tail; recovered = 0; tail = 0;
        assert(isRestored || !(answered & ~(file | log))) }                                             /* durable */
    /* The copy is sent once a record of it is committed, which syncs the log. */
    :: d_step { runs && !hasCopy -> printf("copy\n"); hasCopy = 1; backup = visible; log = log | recovered; recovered = 0 }
    /* `paytokenctl ledger restore` needs the lock of the ledger's file, which a daemon holds. The present log is moved aside. */
    :: atomic { runs && hasCopy && !isRestored -> printf("the copy replaces the file\n"); stop();
        isRestored = 1; fileOnDisk = backup; file = backup; log = 0; recovered = 0; tail = 0;
#ifndef WRONG_COPY_NOT_MARKED
        isMarked = 1
#endif
        }
#ifdef WRONG_ACCEPTED_WITHOUT_FENCE
    :: d_step { isMarked && runs -> printf("acceptance\n"); isMarked = 0 }
#else
    :: d_step { isMarked && runs -> printf("acceptance\n"); isMarked = 0; isFenced = 1 }
#endif
    od
}
