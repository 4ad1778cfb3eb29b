public import Refusals

// Apple's step 6. Before the key is used: merchant and applicationData. After: currency and amount.
extension ExpectedDetails {
    /// Whether the merchant that the token's key belongs to is the expected one, byte for byte.
    ///
    /// - Throws: `merchant_mismatch`.
    public func checkMerchant(_ merchantIdentifier: String) throws(Refusal) {
        guard let expected = self.merchantIdentifier else {
            return try refuseIfRequired("merchantIdentifier", .merchantMismatch)
        }
        guard expected.utf8.elementsEqual(merchantIdentifier.utf8) else {
            throw Refusal(
                .merchantMismatch,
                "The token is for another merchant than expected; check which merchant identifier the payment "
                    + "request used.")
        }
    }

    /// Whether the token carries the hash of the expected applicationData, or none where none is expected.
    ///
    /// - Throws: `application_data_mismatch`.
    public func checkApplicationData(_ token: PaymentToken) throws(Refusal) {
        guard let expected = applicationData else {
            return try refuseIfRequired("applicationData", .applicationDataMismatch)
        }
        let message = "The token's applicationData is not the expected one; it may belong to another order."
        switch (expected, token.applicationDataHash) {
        case (.none, nil): return
        case (.none, .some):
            throw Refusal(.applicationDataMismatch, message, details: "none is expected, the token has one")
        case (.hash, nil):
            throw Refusal(.applicationDataMismatch, message, details: "one is expected, the token has none")
        case (.hash(let expected), .some(let hash)):
            guard expected == hash else { throw Refusal(.applicationDataMismatch, message) }
        }
    }

    /// Whether the payment's currency is the expected one.
    ///
    /// - Throws: `currency_mismatch`.
    public func checkCurrency(_ payload: PaymentPayload) throws(Refusal) {
        guard let expected = currencyCode else { return try refuseIfRequired("currencyCode", .currencyMismatch) }
        guard let actual = payload.currencyCode, actual.utf8.elementsEqual(expected.utf8) else {
            throw Refusal(
                .currencyMismatch,
                "The payment's currency is not the expected one; check it against the payment request.",
                details: payload.currencyCode == nil ? "the payment has no readable currencyCode" : nil)
        }
    }

    /// Whether the payment's amount is the expected one, as an exact decimal.
    ///
    /// - Throws: `amount_mismatch`.
    public func checkAmount(_ payload: PaymentPayload) throws(Refusal) {
        guard let expected = transactionAmount else {
            return try refuseIfRequired("transactionAmount", .amountMismatch)
        }
        guard let actual = payload.transactionAmount, actual == expected else {
            throw Refusal(
                .amountMismatch,
                "The payment's amount is not the expected one; check it and its unit against the payment request.",
                details: payload.transactionAmount == nil ? "the payment has no readable transactionAmount" : nil)
        }
    }

    private func refuseIfRequired(_ member: String, _ code: RefusalCode) throws(Refusal) {
        guard !required.contains(member) else {
            throw Refusal(
                code, "This caller's access rule requires \(member) to be expected; send it in the request.",
                details: "expected.\(member) is missing")
        }
    }
}
