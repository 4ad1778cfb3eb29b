import DaemonAPI
import Refusals
import StrictJSON

extension HTTPAnswer {
    /// A refusal as the contract's JSON, with its status and Retry-After from the error table, or its own Retry-After.
    init(refusal: Refusal, closes: Bool = false) {
        let row = ErrorTable.row(for: refusal.code)
        var json = JSONWriter()
        json.beginObject()
        json.member("code")
        json.string(refusal.code.rawValue)
        json.member("message")
        json.string(refusal.message)
        if let details = refusal.details {
            json.member("details")
            json.string(details)
        }
        json.endObject()
        let seconds = refusal.retryAfter ?? row.retryAfter
        let retryAfter = seconds.map { [Header(name: "Retry-After", value: String($0))] } ?? []
        self = .json(status: row.status, json.bytes, headers: retryAfter, closes: closes)
    }
}
