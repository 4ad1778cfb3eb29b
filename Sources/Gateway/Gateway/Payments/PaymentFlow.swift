// The steps of a payment, in the order of a request:
//     PaymentRequest.swift        the request that a client may send
//     PaymentFlow.swift           this file: the steps, and the effect of each fault on the payment
//     PaytokendDecryption.swift   paytokend's release of the payment token
//     ProcessorDirectory.swift    the processors, and the choice of one for a payment
//     PaymentRefusals.swift       the tables that map faults to responses
//     TokenDisclosure.swift       instead of a payment: the payment token's data for the client, once
//     PaymentRoutes.swift         the endpoints; Radial's are in the folder Radial
//     PaymentOutcomes.swift       storing a payment's result
//     PaymentUpkeep.swift         finding the result of pending payments
//
// Guarantees: a payment token is submitted at most once. The state `submitting` is durable before the first byte goes
// to the processor. After that byte the payment is `pending` unless the processor reports its result, and is never sent
// again.

import Encodings
import Foundation
import Logging
import Payments
import Processors

/// Processes payments from the request to the result.
struct PaymentFlow: Sendable {
    let store: any PaymentStore
    let decryption: PaytokendDecryption
    let processors: ProcessorDirectory
    /// The time limit of one payment, from its request to its response.
    let deadline: Duration
    /// This gateway's name in the store.
    let owner: String
    let metrics: PaymentMetrics
    let underWay: ClientSlots
    let mismatches: ExpectationMismatches
    let readiness: StoreReadiness
    let unstored: UnstoredChanges
    /// The key for the digest of a payment's account number, which is stored with the payment. With the digest, the
    /// gateway recognises the account number in the processor's later responses. Without a key (nil), the gateway
    /// recognises account numbers only by their form.
    let accountNumbers: AccountNumberKey?
    let logger: Logger

    /// Pays with a payment token and returns the payment. Its state is final or `pending`, or `submitting` if an
    /// earlier, equal request is still submitting the payment.
    ///
    /// The payment continues to its end even if the client's connection closes. A stopping gateway waits for the
    /// payments that have a slot in ``underWay``.
    func pay(
        _ request: PaymentRequest, for client: GatewayClient, traceparent: String?
    ) async throws(GatewayRefusal) -> Payment {
        try await runToEnd(for: client) { payment in
            payment.state
        } _: { began throws(GatewayRefusal) in
            try await make(request, for: client, traceparent: traceparent, since: began)
        }
    }

    /// Runs the steps of a payment (`body`) to their end, even if the client's connection closes. Counts the payment in
    /// the metrics under its last state, or under the code of the refusal.
    ///
    /// - Throws: `rate_limited` if the client already has the maximum number of payments in progress.
    func runToEnd<Value: Sendable>(
        for client: GatewayClient, in state: @Sendable (Value) -> PaymentState,
        _ body: @escaping @Sendable (ContinuousClock.Instant) async throws(GatewayRefusal) -> Value
    ) async throws(GatewayRefusal) -> Value {
        let began = ContinuousClock.now
        guard underWay.take(client.name) else {
            metrics.ended(GatewayCode.rateLimited.rawValue, after: .now - began)
            throw GatewayRefusal(
                .rateLimited,
                "This client has too many payments under way; nothing was sent. Wait until one of them is finished.",
                details: "\(underWay.most) at once")
        }
        // This task is not a child of the request's task, which is cancelled when its time limit passes.
        let result = await Task {
            defer { underWay.leave(client.name) }
            do throws(GatewayRefusal) {
                return Result<Value, GatewayRefusal>.success(try await body(began))
            } catch {
                return .failure(error)
            }
        }.value
        switch result {
        case .success(let value): metrics.ended(state(value).rawValue, after: .now - began)
        case .failure(let refusal): metrics.ended(refusal.code.rawValue, after: .now - began)
        }
        return try result.get()
    }

    private func make(
        _ request: PaymentRequest, for client: GatewayClient, traceparent: String?,
        since began: ContinuousClock.Instant
    ) async throws(GatewayRefusal) -> Payment {
        do throws(GatewayRefusal) {
            try check(request, of: client)
            try checkMismatches(of: request, for: client)
        } catch {
            // The configuration may have changed since the payment was submitted. A repeated request must then return
            // the payment's result instead of this refusal.
            if let known = await submitted(request, by: client) { return known }
            throw error
        }
        let ends = began + deadline
        switch try await begin(request, .payment, for: client) {
        case .known(let payment): return payment
        case .begun(let payment, let after):
            let released = try await release(
                request, payment, of: client, after: after, traceparent: traceparent, before: ends)
            return try await submit(released, request, payment, before: ends)
        }
    }

    /// The result of ``begin(_:_:for:)``: a new attempt, or the payment of an earlier, equal request.
    enum AttemptBeginning {
        case begun(Payment, after: [[UInt8]])
        case known(Payment)
    }

    /// Begins an attempt to use the request's payment token. Until this attempt ends or its deadline passes, no other
    /// attempt can use the payment token.
    func begin(
        _ request: PaymentRequest, _ purpose: Payment.Purpose, for client: GatewayClient
    ) async throws(GatewayRefusal) -> AttemptBeginning {
        let (token, wanted) = (request.tokenIdentity.digest, request.digest(for: purpose))
        let arrival = PaymentArrival(
            key: .init(client: client.name, tokenDigest: token.normal), purpose: purpose, requestDigest: wanted.normal,
            originalDigests: .init(tokenDigest: token.original, requestDigest: wanted.original),
            orderId: request.orderId,
            statedTransaction: request.tokenIdentity.transaction, since: client.since,
            attempt: PaymentAttempt(owner: owner, deadline: Date() + deadline / .seconds(1)))
        switch try await useStore({ () throws(PaymentStoreError) in try await store.begin(arrival, at: Date()) }) {
        case .known(let payment): return .known(payment)
        case .begun(let payment, let after): return .begun(payment, after: after)
        case .usedBefore: throw .transactionReplayed
        case .usedDifferently:
            throw GatewayRefusal(
                .payment(.usedDifferently),
                "This payment token was sent before with another orderId or other expectations, or for another operation, and that request may have submitted it. Check its outcome with GET /payments/apple-pay/{transactionId} before the customer authorizes again.",
                details: Hexadecimal.encode(request.tokenIdentity.transaction)
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
    /// request, or if the payment was certainly not sent to a processor.
    private func submitted(_ request: PaymentRequest, by client: GatewayClient) async -> Payment? {
        guard let found = try? await store.payment(transaction: request.tokenIdentity.transaction),
            client.owns(found), request.digest(for: .payment).matches(found.requestDigest), found.state.mayHaveBeenSent
        else { return nil }
        return found
    }

    private func checkMismatches(of request: PaymentRequest, for client: GatewayClient) throws(GatewayRefusal) {
        guard let seconds = mismatches.secondsToWait(request.tokenIdentity.transaction, of: client.name) else { return }
        throw GatewayRefusal(
            .rateLimited,
            "The expectations for this payment token were wrong too often, so paytokend was not asked; correct them, and try again later.",
            details: "expected", retryAfter: seconds)
    }

    /// Checks the request before the payment token is decrypted. Refuses a request that lacks a required element, has
    /// an element that a processor does not accept, or names a merchant for which the client may not act.
    private func check(_ request: PaymentRequest, of client: GatewayClient) throws(GatewayRefusal) {
        let unstated =
            request.canStateExpectations
            ? client.requiredExpectations.subtracting(request.expected.stated) : []
        if let first = unstated.map(\.rawValue).min() {
            throw GatewayRefusal(
                .payment(.elementMissing), "expected.\(first) is missing; this client must state it in each payment.",
                details: "expected.\(first)")
        }
        if let merchant = request.expected.merchantIdentifier, !client.allows(merchant: merchant) {
            throw .merchantForbidden
        }
        let missing = request.customer.missing(
            processors.needs(for: client, merchant: request.expected.merchantIdentifier), orderId: request.orderId)
        if let first = missing.first {
            throw GatewayRefusal(
                .payment(.elementMissing), "\(first.name) is missing or blank, and the processor needs it.",
                details: missing.map(\.name).joined(separator: ", "))
        }
        let unsuitable = processors.unsuitable(
            request.customer, orderId: request.orderId, for: client, merchant: request.expected.merchantIdentifier)
        if let first = unsuitable.first {
            throw GatewayRefusal(
                .daemon(.malformedRequest), "\(first.element.name) does not suit the processor: \(first.reason).",
                details: unsuitable.map(\.element.name).joined(separator: ", "))
        }
    }

    /// Returns the payment token that paytokend released. If paytokend does not release it, ends the attempt and throws
    /// the refusal.
    func release(
        _ request: PaymentRequest, _ payment: Payment, of client: GatewayClient, after: [[UInt8]], traceparent: String?,
        before ends: ContinuousClock.Instant
    ) async throws(GatewayRefusal) -> ReleasedToken {
        let failure: DecryptionFailure
        do throws(DecryptionFailure) {
            let released = try await decryption.release(
                request, for: payment, of: client, after: after, traceparent: traceparent, before: ends)
            // paytokend has already checked the merchant. The gateway checks it again, so that a fault of paytokend's
            // check does not let a client pay for another client's merchant.
            guard client.allows(merchant: released.merchantIdentifier) else {
                throw DecryptionFailure(.merchantForbidden, isFinal: true)
            }
            return released
        } catch { failure = error }
        if let fault = failure.operatorFault {
            logger.error(
                "\(fault.message)", metadata: ["client": "\(client.name)", "details": "\(fault.details ?? "")"])
        }
        if failure.isMismatch { mismatches.count(request.tokenIdentity.transaction, of: client.name) }
        await end(payment, as: failure.isFinal ? .refused : .notSent, failure.refusal.code.rawValue)
        throw failure.refusal
    }

    private func submit(
        _ released: ReleasedToken, _ request: PaymentRequest, _ payment: Payment,
        before ends: ContinuousClock.Instant
    ) async throws(GatewayRefusal) -> Payment {
        let prepared: PreparedSubmission
        switch prepare(released, request) {
        case .success(let submission): prepared = submission
        case .failure(let unsupported):
            let transaction = PaymentTransaction(
                identifier: released.transaction, merchantIdentifier: released.merchantIdentifier, amount: nil,
                processor: nil)
            _ = try await claim(
                payment, transaction, as: .refused, PaymentOutcome(reason: unsupported.code.rawValue))
            throw unsupported
        }
        let transaction = PaymentTransaction(
            identifier: released.transaction, merchantIdentifier: released.merchantIdentifier,
            amount: prepared.submission.amount, processor: prepared.processor.name,
            accountDigest: accountNumbers?.digest(
                of: prepared.submission.credential.accountNumber, in: released.transaction))
        let submitting = try await claim(payment, transaction, as: .submitting, nil)
        // The state `submitting` is now on disk, so the payment may be sent.
        let credential = prepared.submission.credential
        let outcome = await prepared.processor.processor.authorize(prepared.submission, before: ends) { late in
            guard case .answered(let answer) = late else { return }
            let settled = await storeOutcome(submitting, answer, transaction, credential)
            logger.notice(
                "the processor answered after the payment's deadline",
                metadata: ["transaction.id": "\(transaction.name)", "state": "\(settled.state.rawValue)"])
        }
        switch outcome {
        case .answered(let answer):
            if answer.state == .pending {
                noteUnknownOutcome(
                    of: transaction, metric: "answered_pending",
                    reason: answer.outcome.masked(credential.accountNumber).reason ?? "", .warning)
            }
            return await storeOutcome(submitting, answer, transaction, credential)
        case .unknown(let fault):
            // A processor that returned an account number will return one for every payment until the processor's
            // operator fixes the fault. Therefore the fault is logged as an error.
            let level: Logger.Level = fault == .accountNumberNotTokenized ? .error : .warning
            noteUnknownOutcome(of: transaction, metric: fault.rawValue, reason: fault.rawValue, level)
            return await storeOutcome(submitting, as: .pending, PaymentOutcome(reason: fault.rawValue))
        case .notSent(let fault):
            if let pending = await end(submitting, as: .notSent, fault.rawValue) { return pending }
            throw GatewayRefusal(
                .payment(.processorUnavailable),
                "The processor cannot be reached, and nothing was sent; try again with the same request.",
                details: fault.rawValue)
        }
    }

    private struct PreparedSubmission {
        let processor: ConfiguredProcessor
        let submission: Submission
    }

    /// Returns the submission and its processor, or a refusal if the processor does not accept this payment data.
    private func prepare(
        _ released: ReleasedToken, _ request: PaymentRequest
    ) -> Result<PreparedSubmission, GatewayRefusal> {
        guard let processor = processors.processor(for: released.merchantIdentifier) else {
            return .failure(
                GatewayRefusal(
                    .payment(.noProcessor),
                    "No processor is configured for this merchant: no entry of processors[].merchants matches it.")
            )
        }
        func unsupported(_ what: String) -> Result<PreparedSubmission, GatewayRefusal> {
            .failure(
                GatewayRefusal(
                    .payment(.dataUnsupported), "The payment token's data cannot be submitted to this processor.",
                    details: what))
        }
        let takes = processor.processor.capabilities
        let (amount, credential): (Amount?, PaymentCredential)
        do throws(PaymentDataReader.Fault) {
            amount = try PaymentDataReader.amount(released.paymentData)
            credential = try PaymentDataReader.credential(released.paymentData, bytes: released.bytes)
        } catch {
            switch error {
            case .member(let name): return unsupported("\(name) is absent or not as documented")
            case .unknownType: return unsupported("an unknown paymentDataType")
            }
        }
        guard takes.paymentData.contains(credential.proof.type) else {
            return unsupported("paymentDataType \(credential.proof.type.rawValue)")
        }
        guard takes.takesSeveralMerchants || credential.merchantResponses.isEmpty else {
            return unsupported("authenticationResponses of several merchants")
        }
        guard takes.takesNoAmount || (amount?.minorUnits ?? 0) > 0 else { return unsupported("no amount, or zero") }
        // The unit in which Apple states amounts of this currency is not verified. If the client did not state the
        // amount, an amount that is wrong by a factor of ten or a hundred would go unnoticed.
        guard amount?.isAppleUnitVerified ?? true || request.expected.stated.contains(.amount) else {
            return unsupported("a currency without two decimals, in a request that does not state expected.amount")
        }
        let submission = Submission(
            transactionId: Hexadecimal.encode(released.transaction),
            merchantIdentifier: released.merchantIdentifier, orderId: request.orderId, amount: amount,
            credential: credential, customer: request.customer)
        if let objection = processor.processor.objection(to: submission) { return unsupported(objection) }
        return .success(PreparedSubmission(processor: processor, submission: submission))
    }

    func claim(
        _ payment: Payment, _ transaction: PaymentTransaction, as state: PaymentState, _ outcome: PaymentOutcome?
    ) async throws(GatewayRefusal) -> Payment {
        let claim: PaymentClaim
        do throws(PaymentStoreError) {
            claim = try await store.claim(payment, transaction, as: state, outcome, at: Date())
        } catch {
            reportStoreFailure(error)
            // Nothing was sent, so the attempt ends here, even if the store made the change in spite of the error. If
            // the store does not respond, ``PaymentUpkeep`` finds the abandoned payment later.
            await end(payment, as: .notSent, "store_unavailable")
            throw GatewayRefusal(error)
        }
        guard case .claimed(let claimed) = claim else { throw .transactionReplayed }
        return claimed
    }

    /// Makes a call to the store, and returns its result. If the call fails, reports the failure
    /// (``reportStoreFailure(_:)``), and throws the refusal with which the gateway answers the request.
    private func useStore<Value: Sendable>(
        _ body: () async throws(PaymentStoreError) -> Value
    ) async throws(GatewayRefusal) -> Value {
        do throws(PaymentStoreError) { return try await body() } catch {
            reportStoreFailure(error)
            throw GatewayRefusal(error)
        }
    }

    func reportStoreFailure(_ error: PaymentStoreError) {
        if case .superseded = error { return }
        readiness.failed(error)
        logger.error("the store of payments failed", metadata: ["reason": "\(error)"])
    }
}
