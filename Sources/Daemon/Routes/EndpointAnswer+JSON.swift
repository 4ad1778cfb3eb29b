import DaemonAPI
import PaymentToken
import Refusals

extension EndpointAnswer {
    static func json(_ value: some Encodable, status: Int = 200, outcome: String = "ok") throws(Refusal) -> Self {
        do {
            return EndpointAnswer(http: .json(status: status, try JSONCoding.encode(value)), outcome: outcome)
        } catch {
            throw .defect
        }
    }
}
