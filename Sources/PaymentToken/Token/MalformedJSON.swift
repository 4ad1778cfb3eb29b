public import Refusals
public import StrictJSON

extension Refusal {
    /// What to say of a request body that is not JSON as this daemon wants it: `malformed_token` for a name that is
    /// repeated within the member `token`, else `malformed_request`.
    public static func malformedJSON(_ error: JSONError) -> Refusal {
        if error.kind == .duplicateMember, error.outermostMember == "token" {
            return .malformedToken(error.description)
        }
        return Refusal(
            .malformedRequest, "The request's body is not well-formed JSON; send one JSON object in UTF-8.",
            details: error.description)
    }
}
