/// What a token answered about one object's attributes. An attribute that the object does not have, or that is not to
/// be had (sensitive), is absent.
public struct AttributeValues: Sendable, Hashable {
    private let values: [AttributeType: [UInt8]]
    private let oversized: Set<AttributeType>

    init(_ values: [AttributeType: [UInt8]], oversized: Set<AttributeType> = []) {
        self.values = values
        self.oversized = oversized
    }

    /// Whether the token has a value that is larger than any is read, so that it is absent here.
    public func isOversized(_ type: AttributeType) -> Bool { oversized.contains(type) }

    /// The value as the library gave it.
    public func bytes(_ type: AttributeType) -> [UInt8]? {
        values[type]
    }

    /// A CK_BBOOL; nil also when the value is not one byte. Any byte but 0 counts as true.
    public func flag(_ type: AttributeType) -> Bool? {
        guard let value = values[type], value.count == 1 else { return nil }
        return value[0] != 0
    }

    /// A CK_ULONG; nil also when the value has another size.
    public func number(_ type: AttributeType) -> UInt? {
        guard let value = values[type], value.count == MemoryLayout<UInt>.size else { return nil }
        return value.nativeNumber
    }

    /// A text; nil also when the value is not UTF-8.
    public func text(_ type: AttributeType) -> String? {
        values[type].flatMap { String(validating: $0, as: UTF8.self) }
    }

    public var objectClass: ObjectClass? { number(.objectClass).map(ObjectClass.init(rawValue:)) }
    public var keyType: KeyType? { number(.keyType).map(KeyType.init(rawValue:)) }
}

extension [UInt8] {
    /// The bytes as a number of the machine's own byte order, as the library wrote it.
    fileprivate var nativeNumber: UInt {
        var number: UInt = 0
        unsafe Swift.withUnsafeMutableBytes(of: &number) { unsafe $0.copyBytes(from: self) }
        return number
    }
}
