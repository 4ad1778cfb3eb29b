/* Claims are pruned or lost, and the signing time takes their place, with clocks that differ: retention, signing-time
 * window, forgotten_before, accept-clock, the fence of a restore, the times of a Google Pay message.
 *
 * One payment token, signed at SIGNED, is offered at any time to two hosts, by different callers. The hosts' clocks and the
 * server's differ from the true time by LEAD steps or not at all. The window is off, one step or two. A clock or the window
 * is set at any time, at most FAULTS times. Claims may be pruned at any time, in a transaction that follows its plan. A commit is one step.
 *
 * Modelled: Sources/Storage/Ledger/ClaimRetention.swift (age, plan), Release.refusalOfFirstRelease, ReleaseLimits.fence,
 * prune_claims, limit_forgotten and earliest_fence in PostgreSQLTablesVersion7.swift, PostgreSQLAdministration.prune,
 * SQLiteLedger.prune, ClockAcceptance in Sources/Daemon, SigningTimeWindow and GooglePayMessageTimes in Sources/PaymentTokens.
 *
 * APPLE     the payment token is of Apple Pay: its claim confirms the clock
 * GOOGLE    a message of Google Pay, which counts as signed one lifetime before it expires; Google Pay may be turned off
 * RESTORE   (with one of these) the claim is lost by a restore, which is accepted
 */
#if !defined(APPLE) && !defined(GOOGLE)
#define APPLE
#endif
#ifndef FAULTS
#define FAULTS 4
#endif
#define LEAD 2
#define LAST_MOMENT 9
#define SIGNED (LEAD + 1)   /* Times begin at LEAD, so that no clock is below zero. */
#define LIFETIME 3

byte now = LEAD;            /* the true time */
byte shift[3] = LEAD;       /* each clock is ahead of the true time by shift - LEAD; the third is the server's */
#define clock(i) (now + shift[i] - LEAD)
#define SERVER 2
#define least(a, b) ((a) < (b) -> (a) : (b))
#define most(a, b) ((a) > (b) -> (a) : (b))

byte window = 1;            /* 0: off */
bit wasWider;               /* the window became narrower */
bit isClaimed, served = 1;  /* served: Google Pay is configured */
byte claimedAt;             /* the time of the claim by the host's clock */
byte ahead;                 /* signed_ahead: the greatest lead of a signing time over its claim */
byte confirmed, newest;     /* the times of the newest claim of Apple Pay, and of the newest release in the record */
byte forgottenBefore;       /* twice the time: half of the age may be half a step */
byte fence;
bit isHeld, isRestored;
byte planned, plannedBefore; /* a plan that is not yet carried out, in half steps; 0 for none */
byte changes = FAULTS;      /* of a clock, the window, or the use of Google Pay */
byte released;              /* what callers were told; nothing else reads it */

/* The retention's age covers a window before and after the present, and twice the lifetime of a message. */
#ifdef GOOGLE
#define widest (served && LIFETIME > window -> LIFETIME : window)
#else
#define widest window
#endif
#ifdef WRONG_PRUNES_WITHIN_WINDOW
#define AGE widest
#else
#define AGE (2 * widest)
#endif
#ifdef WRONG_FORGETS_WITHOUT_TRACE
#define isForgotten false
#else
#define isForgotten (2 * SIGNED < forgottenBefore)
#endif
#define isFenced (SIGNED < fence)

#ifdef GOOGLE
/* GooglePayMessageTimes.fault */
#define isInTime(c) (served && c < SIGNED + LIFETIME && (window == 0 || SIGNED <= c + window))
#else
#define isInTime(c) (window == 0 || (c <= SIGNED + window && c + window >= SIGNED))
#endif

#define present least(clock(_pid), clock(SERVER))
#define isRefused (planned < plannedBefore + 2 * ahead || planned > 2 * (clock(SERVER) - window))
#ifdef WRONG_RELEASES_NOT_REGARDED
#define EARLIEST (clock(_pid) + window)
#else
#define EARLIEST most(most(clock(_pid), newest) + window, clock(SERVER) + most(ahead, window))
#endif
#ifdef WRONG_FENCE_BY_CLOCK
#define FENCE clock(_pid)
#else
#define FENCE (most(clock(_pid), most(newest, clock(SERVER))) + window)
#endif

active [2] proctype Host() {
end:
    do
    :: d_step { now >= SIGNED && isInTime(clock(_pid)) && !isClaimed && !isForgotten && !isFenced && !isHeld ->
        isClaimed = 1; claimedAt = clock(_pid);
        newest = most(newest, claimedAt);
#if defined(APPLE) || defined(WRONG_GOOGLE_CONFIRMS_CLOCK)
        confirmed = most(confirmed, claimedAt);
#endif
#ifndef WRONG_LEAD_NOT_KEPT
        ahead = (SIGNED > claimedAt -> most(ahead, SIGNED - claimedAt) : ahead);
#endif
        printf("host %d releases at %d, its clock shows %d, window %d\n", _pid, now, claimedAt, window);
        assert(isRestored || released == 0);            /* pruned */
        assert(!isRestored || released == 0);           /* restored */
        released++ }
#ifdef GOOGLE
    /* Another message, which is signed and released now. Its expiration confirms no clock. */
    :: d_step { served && clock(_pid) < now + LIFETIME && (window == 0 || now <= clock(_pid) + window) && !isHeld &&
        newest < clock(_pid) ->
#ifdef WRONG_GOOGLE_CONFIRMS_CLOCK
        confirmed = most(confirmed, clock(_pid));
#endif
        newest = clock(_pid) }
#endif
#ifndef RESTORE
    /* Another payment token of Apple Pay, which is signed and released now. Its signing time is true. */
    :: d_step { window != 0 && clock(_pid) <= now + window && clock(_pid) + window >= now && !isHeld && confirmed < clock(_pid) ->
        confirmed = clock(_pid); newest = most(newest, confirmed) }
    /* ClaimRetention.plan: no plan while a window is off. The end is the newest confirmed time, if the clock is ahead of it. */
    :: d_step { window != 0 && isClaimed && planned == 0 && confirmed != 0 && claimedAt + AGE < present ->
        printf("host %d plans to prune, its clock shows %d, newest claim %d\n", _pid, clock(_pid), confirmed);
#ifdef WRONG_CLOCK_NOT_CONFIRMED
#define END present
#else
#define END least(present, confirmed)
#endif
        if
        :: 2 * END > 2 * AGE + (2 * ahead > AGE -> 2 * ahead - AGE : 0) ->
            planned = 2 * END - AGE;
            plannedBefore = 2 * END - 2 * AGE - (2 * ahead > AGE -> 2 * ahead - AGE : 0)
        :: else
        fi }
    /* prune_claims. The lead may have grown since the plan. */
    :: d_step { planned != 0 && !isHeld ->
        if
        :: isClaimed && 2 * claimedAt < plannedBefore && !isRefused ->
            printf("pruned at %d: tokens signed before %d/2 are forgotten\n", now, planned);
            isClaimed = 0; forgottenBefore = most(forgottenBefore, planned);
            /* New payment tokens are released, whatever the clocks show. */
            assert(wasWider || forgottenBefore <= 2 * now)      /* confirmed */
        :: else
        fi;
        planned = 0; plannedBefore = 0 }
    /* ClockAcceptance.plan, and limit_forgotten */
    :: d_step { window != 0 && !isHeld && forgottenBefore > 2 * clock(_pid) && 2 * EARLIEST < forgottenBefore ->
        printf("host %d accepts its clock %d: tokens signed from %d on are served\n", _pid, clock(_pid), EARLIEST);
        forgottenBefore = 2 * EARLIEST }
#else
    /* The clock is late by less than a window: the operator has set it. */
    :: d_step { isHeld && window != 0 && (clock(_pid) + window > now || clock(SERVER) + window > now) ->
        printf("host %d accepts the restore, its clock shows %d\n", _pid, clock(_pid));
        isHeld = 0; fence = most(fence, FENCE) }
#endif
    od
}

active proctype World() {
    byte i;
end:
    do
    :: d_step { now < LAST_MOMENT -> now++ }
    :: atomic { changes != 0 -> changes--;
        if
        :: i = 0
        :: i = 1
        :: i = 2
        fi;
        if
        :: shift[i] != 0 -> shift[i] = 0
        :: shift[i] != LEAD -> shift[i] = LEAD
        :: shift[i] != 2 * LEAD -> shift[i] = 2 * LEAD
        fi;
        i = 0 }
    :: d_step { window != 0 && changes != 0 -> changes--; window = 0 }
    :: d_step { window != 1 && changes != 0 -> changes--; window = 1; wasWider = 1 }
    :: d_step { window != 2 && changes != 0 -> changes--; wasWider = wasWider || window == 0; window = 2 }
#ifdef GOOGLE
    :: d_step { changes != 0 -> changes--; served = 1 - served }
#endif
#ifdef RESTORE
    :: d_step { isClaimed && !isRestored -> printf("the claim is lost\n"); isClaimed = 0; isRestored = 1; isHeld = 1 }
#endif
    od
}
