/// One frame of the stream between the daemon and a worker.
///
/// On the wire, all integers big-endian: u32 length of the rest, u8 type, u64 request identifier, then the type's
/// fields in their fixed order. Octet strings and texts are u32 length and content, lists u16 count and elements,
/// booleans and the presence of optionals one octet 0 or 1.
public struct Frame: Sendable, Equatable {
    /// Octets before the first field, without the length prefix.
    static let headerLength = 9

    public var type: UInt8
    /// Chosen by the daemon; the answer carries the same one. Answers may come in another order than requests.
    public var identifier: UInt64
    /// The fields, not yet read.
    public var fields: ArraySlice<UInt8>

    public init(type: UInt8, identifier: UInt64, fields: ArraySlice<UInt8>) {
        self.type = type
        self.identifier = identifier
        self.fields = fields
    }
}
