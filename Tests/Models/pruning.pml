/* Claims are pruned, and the signing time takes their place: retention, signing-time window, forgotten_before.
 *
 * One payment token, signed at SIGNED, is offered twice by different callers, at any time. Time passes in steps. The window
 * is one step and may become two, in one of these steps. Claims may be pruned at any time. A commit is one step here.
 *
 * Modelled: Sources/Storage/Ledger/ClaimRetention.swift (age, plan), prune_claims in PostgreSQLTablesVersion7.swift,
 * Release.refusalOfFirstRelease, SigningTimeWindow (Sources/PaymentTokens/PaymentToken/Signature).
 * One clock: what a wrong one does is left out (LedgerTests/WrongClockTests).
 */
#define LAST_MOMENT 10
#define SIGNED 2

byte now, window = 1;
bit isClaimed, wasClaimed;
byte claimedAt, newest;     /* the time of the claim, and of the ledger's newest claim */
byte forgottenBefore;       /* twice the time: half of the age may be half a step */
byte released;              /* what callers were told; nothing else reads it */

/* The retention's age covers a window before and after the present. */
#ifdef WRONG_PRUNES_WITHIN_WINDOW
#define AGE window
#else
#define AGE (2 * window)
#endif
#ifdef WRONG_FORGETS_WITHOUT_TRACE
#define isForgotten false
#else
#define isForgotten (2 * SIGNED < forgottenBefore)
#endif

active [2] proctype Caller() {
end:
    d_step { now <= SIGNED + window && now + window >= SIGNED && !isClaimed && !isForgotten ->
        isClaimed = 1; wasClaimed = 1; claimedAt = now; newest = now;
        printf("released at %d\n", now);
        assert(released == 0);      /* pruned */
        released++ }
}

active proctype Ledger() {
end:
    do
    /* Another payment token is released, which moves the newest claim. */
    :: d_step { newest < now -> newest = now }
    /* ClaimRetention.plan: the end is the newest claim's time, if the clock is ahead of it. */
    :: d_step { isClaimed && newest >= AGE && claimedAt < newest - AGE ->
        printf("pruned at %d\n", now); isClaimed = 0; forgottenBefore = 2 * (newest - AGE) + AGE }
    :: d_step { window == 1 -> window = 2 }
    :: d_step { now < LAST_MOMENT -> now++ }
    od
}
