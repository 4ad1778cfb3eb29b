/// What the device names a transaction by: 32 bytes, written in hexadecimal. Released once, ever.
public struct TransactionIdentifier: Hashable, Sendable {
    public static let size = 32

    /// 32 bytes.
    public let bytes: [UInt8]

    /// Nil unless there are 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// Nil unless `text` is 64 hexadecimal digits of either case.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    /// 64 lower-case digits.
    public var hex: String { Hexadecimal.encode(bytes) }
}
