// The steps of a payment, in the order of a request:
//     PaymentRequest.swift        a client's request with a payment token of either wallet, and the checks of its form
//     ApplePayRequest.swift       the part of it that is Apple Pay's
//     GooglePayRequest.swift      the part of it that is Google Pay's
//     PaymentFlow.swift           this file: the steps, and the effect of each fault on the payment
//     PaytokendDecryption.swift   paytokend's release of the payment token
//     ProcessorDirectory.swift    the processors, and the choice of one for a payment
//     PaymentRefusals.swift       the tables that map faults to responses
//     TokenDisclosure.swift       returning a payment token's data to the client instead of paying
//     PaymentRoutes.swift         the endpoints; Radial's are in the folder Radial
//     PaymentOutcomes.swift       storing a payment's result
//     PaymentUpkeep.swift         finding the result of pending payments
//
// Guarantees: The gateway submits a payment token at most once. It stores the state `submitting` durably before it
// sends the first byte to the processor. Once this byte is sent, the payment is never sent again. It becomes `pending`
// unless the processor reports its result.

import Encodings
import Foundation
import KeyTypes
import Logging
import Payments
import Processors

/// Processes payments from the request to the result.
struct PaymentFlow: Sendable {
    let store: any PaymentStore
    let decryption: PaytokendDecryption
    let processors: ProcessorDirectory
    /// The time limit of one payment, from its request to its response.
    let timeLimit: Duration
    /// This host's name, which the store keeps with each attempt for display.
    let gatewayName: String
    let metrics: PaymentMetrics
    let paymentSlots: ClientSlots
    let mismatches: ExpectationMismatches
    let readiness: StoreReadiness
    let unstoredChanges: UnstoredChanges
    /// The key for the digest of a payment's account number, which is stored with the payment. With the digest, the
    /// gateway recognises the account number in the processor's later responses. Without a key (nil), the gateway
    /// recognises account numbers only by their form.
    let accountNumberKey: AccountNumberKey?
    let logger: Logger

    /// Pays with a payment token and returns the payment. The payment's state is final or `pending`. It is `submitting`
    /// if an earlier, equal request is still submitting the payment.
    ///
    /// The payment continues to its end even if the client's connection closes. A stopping gateway waits for the
    /// payments that have a slot in ``paymentSlots``.
    func pay(
        _ request: PaymentRequest, for client: GatewayClient, traceparent: String?
    ) async throws(GatewayRefusal) -> Payment {
        try await runToEnd(request.walletRequest.wallet, for: client) { payment in
            payment.state
        } _: { began throws(GatewayRefusal) in
            try await makePayment(request, for: client, traceparent: traceparent, since: began)
        }
    }

    /// Runs the steps of a payment (`body`) to their end, even if the client's connection closes. Counts the payment in
    /// the metrics under its wallet and the state that `state` returns, or the code of the refusal.
    ///
    /// - Throws: `rate_limited` if the client already has the maximum number of payments in progress.
    func runToEnd<Value: Sendable>(
        _ wallet: Wallet, for client: GatewayClient, countedAs state: @Sendable (Value) -> PaymentState,
        _ body: @escaping @Sendable (ContinuousClock.Instant) async throws(GatewayRefusal) -> Value
    ) async throws(GatewayRefusal) -> Value {
        let began = ContinuousClock.now
        guard paymentSlots.take(client.name) else {
            metrics.recordResponse(wallet, outcome: GatewayCode.rateLimited.rawValue, after: .now - began)
            throw GatewayRefusal(
                .rateLimited,
                "This client has too many payments under way; nothing was sent. Wait until one of them is finished.",
                details: "\(paymentSlots.most) at once")
        }
        // The steps run in a separate task. The request's own task is cancelled when its time limit passes, which would
        // cancel the steps too.
        let result = await Task.onSameExecutor {
            defer { paymentSlots.leave(client.name) }
            do throws(GatewayRefusal) {
                return Result<Value, GatewayRefusal>.success(try await body(began))
            } catch {
                return .failure(error)
            }
        }.value
        switch result {
        case .success(let value): metrics.recordResponse(wallet, outcome: state(value).rawValue, after: .now - began)
        case .failure(let refusal): metrics.recordResponse(wallet, outcome: refusal.code.rawValue, after: .now - began)
        }
        return try result.get()
    }

    private func makePayment(
        _ request: PaymentRequest, for client: GatewayClient, traceparent: String?,
        since began: ContinuousClock.Instant
    ) async throws(GatewayRefusal) -> Payment {
        do throws(GatewayRefusal) {
            try checkContents(of: request, for: client)
            try checkMismatchLimit(of: request, for: client)
        } catch {
            // The configuration may have changed since the payment was submitted. A repeated request must then return
            // the payment's result instead of this refusal.
            if let known = await submittedPayment(for: request, of: client) { return known }
            throw error
        }
        let deadline = began + timeLimit
        switch try await beginAttempt(request, .payment, for: client) {
        case .existing(let payment): return payment
        case .begun(let payment, let earlierAttempts):
            let released = try await releasePaymentToken(
                request, payment, of: client, earlierAttempts: earlierAttempts, traceparent: traceparent,
                before: deadline)
            return try await submit(released, request, payment, before: deadline)
        }
    }

    /// The result of ``beginAttempt(_:_:for:)``.
    enum AttemptStart {
        /// A new attempt, and the identifiers of the client's earlier attempts, which certainly sent nothing.
        case begun(Payment, earlierAttempts: [[UInt8]])
        /// The payment of an earlier, equal request.
        case existing(Payment)
    }

    /// Begins an attempt to use the request's payment token. Until this attempt ends or its deadline passes, no other
    /// attempt can use the payment token.
    func beginAttempt(
        _ request: PaymentRequest, _ purpose: Payment.Purpose, for client: GatewayClient
    ) async throws(GatewayRefusal) -> AttemptStart {
        let (tokenDigest, requestDigest) = (request.tokenIdentity.digest, request.digest(for: purpose))
        let arrival = PaymentArrival(
            key: .init(client: client.name, tokenDigest: tokenDigest.normal), purpose: purpose,
            requestDigest: requestDigest.normal,
            originalDigests: .init(tokenDigest: tokenDigest.original, requestDigest: requestDigest.original),
            orderId: request.orderId,
            statedTransaction: request.tokenIdentity.transactionIdentifier, since: client.since,
            attempt: PaymentAttempt(owner: gatewayName, deadline: Date() + timeLimit / .seconds(1)))
        switch try await useStore({ () throws(PaymentStoreError) in try await store.begin(arrival, at: Date()) }) {
        case .known(let payment): return .existing(payment)
        case .begun(let payment, let earlierAttempts): return .begun(payment, earlierAttempts: earlierAttempts)
        case .usedBefore: throw .transactionReplayed
        case .usedDifferently:
            throw GatewayRefusal(
                .payment(.usedDifferently),
                "This payment token was sent before with another orderId, amount, currency or other statement, or for another operation, and that request may have submitted it. Check its outcome with GET /payments/\(request.walletRequest.wallet.rawValue)/{transactionId} before the customer authorizes again.",
                details: Hexadecimal.encode(request.tokenIdentity.transactionIdentifier)
            )
        case .underWay:
            throw GatewayRefusal(
                .payment(.underWay), "Another request is processing this payment token; ask again for its outcome.")
        case .triedTooOften(let seconds):
            throw GatewayRefusal(
                .rateLimited,
                "This payment token was tried too often without being submitted; ask the customer to authorize again, or try it later.",
                details: "token", retryAfter: seconds)
        }
    }

    /// Returns the payment of an earlier, equal request of this client. Returns nil if the client has made no such
    /// request, if the payment was certainly not sent to a processor, or if the store fails.
    private func submittedPayment(for request: PaymentRequest, of client: GatewayClient) async -> Payment? {
        guard let found = try? await store.payment(transaction: request.tokenIdentity.transactionIdentifier),
            client.owns(found), request.digest(for: .payment).matches(found.requestDigest), found.state.mayHaveBeenSent
        else { return nil }
        return found
    }

    private func checkMismatchLimit(of request: PaymentRequest, for client: GatewayClient) throws(GatewayRefusal) {
        guard
            let seconds = mismatches.secondsToWait(
                for: request.tokenIdentity.transactionIdentifier, client: client.name)
        else { return }
        throw GatewayRefusal(
            .rateLimited,
            "The expectations for this payment token were wrong too often, so paytokend was not asked; correct them, and try again later.",
            details: "expected", retryAfter: seconds)
    }

    /// Checks the request before the payment token is decrypted. Refuses a request that lacks a required element, has
    /// an element that a processor does not accept, names a merchant for which the client may not act, or states a payment
    /// that no processor accepts.
    private func checkContents(of request: PaymentRequest, for client: GatewayClient) throws(GatewayRefusal) {
        let walletRequest = request.walletRequest
        try walletRequest.checkStatements(for: client)
        guard client.mayUse(walletRequest.wallet) else { throw .merchantForbidden(walletRequest.wallet) }
        if let merchant = walletRequest.statedMerchant, !client.allows(merchant: merchant, of: walletRequest.wallet) {
            throw .merchantForbidden(walletRequest.wallet)
        }
        let candidates = processors.candidates(for: client, walletRequest)
        if walletRequest.statedMerchant != nil, candidates.isEmpty { throw .noProcessor(walletRequest.wallet) }
        if let amount = walletRequest.statedAmount, !candidates.allSatisfy({ $0.accepts(amount) }) {
            throw .dataUnsupported(ConfiguredProcessor.noAmount)
        }
        let missing = request.customer.missing(candidates.requiredElements, orderId: request.orderId)
        if let first = missing.first {
            throw GatewayRefusal(
                .payment(.elementMissing), "\(first.name) is missing or blank, and the processor needs it.",
                details: missing.map(\.name).joined(separator: ", "))
        }
        let unsuitable = candidates.unsuitableElements(request.customer, orderId: request.orderId)
        if let first = unsuitable.first {
            throw GatewayRefusal(
                .daemon(.malformedRequest), "\(first.element.name) does not suit the processor: \(first.reason).",
                details: unsuitable.map(\.element.name).joined(separator: ", "))
        }
    }

    /// Asks paytokend to release the payment token, and returns the decrypted data. If paytokend refuses or does not
    /// respond, ends the attempt and throws the refusal that the client receives.
    func releasePaymentToken(
        _ request: PaymentRequest, _ payment: Payment, of client: GatewayClient, earlierAttempts: [[UInt8]],
        traceparent: String?,
        before deadline: ContinuousClock.Instant
    ) async throws(GatewayRefusal) -> ReleasedPaymentToken {
        let failure: DecryptionFailure
        do throws(DecryptionFailure) {
            let released = try await decryption.releasePaymentToken(
                request, for: payment, of: client, earlierAttempts: earlierAttempts, traceparent: traceparent,
                before: deadline)
            // paytokend has already checked the merchant. The gateway repeats the check. Otherwise a defect in
            // paytokend would let a client pay for another client's merchant.
            guard client.allows(merchant: released.merchantIdentifier, of: request.walletRequest.wallet) else {
                throw DecryptionFailure(.merchantForbidden(request.walletRequest.wallet), isFinal: true)
            }
            return released
        } catch { failure = error }
        if let fault = failure.operatorFault {
            logger.error(
                "\(fault.message)", metadata: ["client": "\(client.name)", "details": "\(fault.details ?? "")"])
        }
        if failure.isMismatch {
            mismatches.countMismatch(for: request.tokenIdentity.transactionIdentifier, client: client.name)
        }
        await endAttempt(payment, as: failure.isFinal ? .refused : .notSent, failure.refusal.code.rawValue)
        throw failure.refusal
    }

    private func submit(
        _ released: ReleasedPaymentToken, _ request: PaymentRequest, _ payment: Payment,
        before deadline: ContinuousClock.Instant
    ) async throws(GatewayRefusal) -> Payment {
        let prepared: PreparedSubmission
        switch makeSubmission(released, request) {
        case .success(let submission): prepared = submission
        case .failure(let unsupported):
            let transaction = PaymentTransaction(
                identifier: released.transactionIdentifier, merchantIdentifier: released.merchantIdentifier,
                amount: nil,
                processor: nil)
            _ = try await claim(
                payment, transaction, as: .refused, PaymentOutcome(reason: unsupported.code.rawValue))
            throw unsupported
        }
        let transaction = PaymentTransaction(
            identifier: released.transactionIdentifier, merchantIdentifier: released.merchantIdentifier,
            amount: prepared.submission.amount, processor: prepared.processor.name,
            accountDigest: accountDigest(of: prepared.submission.credential, in: released.transactionIdentifier))
        let submitting = try await claim(payment, transaction, as: .submitting, nil)
        // The state `submitting` is now on disk, so the payment may be sent.
        let credential = prepared.submission.credential
        let outcome = await prepared.processor.processor.authorize(prepared.submission, before: deadline) { late in
            guard case .answered(let answer) = late else { return }
            let stored = await storeOutcome(submitting, answer, transaction, credential)
            logger.notice(
                "the processor answered after the payment's deadline",
                metadata: ["transaction.id": "\(transaction.name)", "state": "\(stored.state.rawValue)"])
        }
        switch outcome {
        case .answered(let answer):
            if answer.state == .pending {
                reportUnknownOutcome(
                    of: transaction, metricReason: "answered_pending",
                    reason: answer.outcome.masked(credential.accountNumber).reason ?? "", .warning)
            }
            return await storeOutcome(submitting, answer, transaction, credential)
        case .unknown(let fault):
            // A processor that returned an account number once will return one for every payment, until the processor's
            // operator fixes the fault. Therefore the fault is logged as an error.
            let level: Logger.Level = fault == .accountNumberNotTokenized ? .error : .warning
            reportUnknownOutcome(of: transaction, metricReason: fault.rawValue, reason: fault.rawValue, level)
            return await storeOutcome(submitting, as: .pending, PaymentOutcome(reason: fault.rawValue))
        case .notSent(let fault):
            if let pending = await endAttempt(submitting, as: .notSent, fault.rawValue) { return pending }
            throw GatewayRefusal(
                .payment(.processorUnavailable),
                "The processor cannot be reached, and nothing was sent; try again with the same request.",
                details: fault.rawValue)
        }
    }

    /// Returns the digest by which a later answer's texts are masked. The number of the card itself gets none, since it
    /// could be guessed with the digest and the key; such texts are masked by their form alone.
    private func accountDigest(of credential: PaymentCredential, in transaction: [UInt8]) -> [UInt8]? {
        if case .absent = credential.proof { return nil }
        return accountNumberKey?.digest(of: credential.accountNumber, in: transaction)
    }

    private struct PreparedSubmission {
        let processor: ConfiguredProcessor
        let submission: Submission
    }

    /// Returns the submission and its processor. Returns a refusal if no processor is configured for the merchant, or
    /// if the processor does not accept this payment data.
    private func makeSubmission(
        _ released: ReleasedPaymentToken, _ request: PaymentRequest
    ) -> Result<PreparedSubmission, GatewayRefusal> {
        let wallet = request.walletRequest.wallet
        guard let processor = processors.processor(for: released.merchantIdentifier, of: wallet) else {
            return .failure(.noProcessor(wallet))
        }
        let (amount, credential): (Amount?, PaymentCredential)
        do throws(UnsupportedPaymentData) {
            (amount, credential) = try request.walletRequest.paymentData(of: released, for: processor)
        } catch { return .failure(.dataUnsupported(error.reason)) }
        guard processor.accepts(amount) else { return .failure(.dataUnsupported(ConfiguredProcessor.noAmount)) }
        let submission = Submission(
            transactionId: Hexadecimal.encode(released.transactionIdentifier), wallet: wallet,
            merchantIdentifier: released.merchantIdentifier, orderId: request.orderId, amount: amount,
            credential: credential, customer: request.customer)
        if let objection = processor.processor.objection(to: submission) {
            return .failure(.dataUnsupported(objection))
        }
        return .success(PreparedSubmission(processor: processor, submission: submission))
    }

    /// Stores the payment's transaction and its new state. If the store fails, ends the attempt.
    ///
    /// - Throws: `transaction_replayed` if another payment has the same transaction identifier.
    func claim(
        _ payment: Payment, _ transaction: PaymentTransaction, as state: PaymentState, _ outcome: PaymentOutcome?
    ) async throws(GatewayRefusal) -> Payment {
        let claim: PaymentClaim
        do throws(PaymentStoreError) {
            claim = try await store.claim(payment, transaction, as: state, outcome, at: Date())
        } catch {
            reportStoreFailure(error)
            // Nothing was sent, so the attempt ends here, even if the store made the change in spite of the error. If
            // the store fails again, ``UnstoredChanges`` stores the end of the attempt later.
            await endAttempt(payment, as: .notSent, "store_unavailable")
            throw GatewayRefusal(error)
        }
        guard case .claimed(let claimed) = claim else { throw .transactionReplayed }
        return claimed
    }

    /// Runs `body`, which calls the store, and returns its result. Reports an error of the store
    /// (``reportStoreFailure(_:)``), and converts it to the refusal that the client receives.
    private func useStore<Value: Sendable>(
        _ body: () async throws(PaymentStoreError) -> Value
    ) async throws(GatewayRefusal) -> Value {
        do throws(PaymentStoreError) { return try await body() } catch {
            reportStoreFailure(error)
            throw GatewayRefusal(error)
        }
    }

    /// Logs an error of the store. Makes the gateway not ready, unless the error concerns a single payment. Ignores
    /// `superseded`, because the store itself works then.
    func reportStoreFailure(_ error: PaymentStoreError) {
        if case .superseded = error { return }
        readiness.recordFailure(error)
        logger.error("the store of payments failed", metadata: ["reason": "\(error)"])
    }
}
