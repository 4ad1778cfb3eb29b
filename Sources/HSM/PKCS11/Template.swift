internal import CPKCS11
public import SecretMemory

// Unsafe: The temporary memory lives until `body` returns, and holds one more element than is used. Offsets were
// made from the values' sizes.

/// Attributes for creating, finding, copying or changing objects (PKCS#11 v2.40 base §3.4), laid out once for repeated
/// use.
public struct Template: Sendable, ExpressibleByArrayLiteral {
    private var entries: [TemplateEntry] = []
    /// The values one after another, each at a multiple of 8: a library may read a CK_ULONG from there directly.
    private var values: [UInt8] = []

    public init(_ attributes: [Attribute]) {
        for attribute in attributes { append(attribute) }
    }

    public init(arrayLiteral attributes: Attribute...) {
        self.init(attributes)
    }

    public mutating func append(_ attribute: Attribute) {
        while values.count % 8 != 0 { values.append(0) }
        let offset = values.count
        switch attribute.value {
        case .flag(let flag): values.append(flag ? CK_BBOOL(CK_TRUE) : CK_BBOOL(CK_FALSE))
        case .number(let number): unsafe withUnsafeBytes(of: number) { unsafe values.append(contentsOf: $0) }
        case .bytes(let bytes): values.append(contentsOf: bytes)
        }
        entries.append(TemplateEntry(type: attribute.type.rawValue, offset: offset, count: values.count - offset))
    }

    /// Lends the attributes as the standard's array. Values are copied first: a library that writes to a template
    /// changes only that copy.
    func withCAttributes<Result>(_ body: (UnsafeMutablePointer<CK_ATTRIBUTE>, CK_ULONG) -> Result) -> Result {
        unsafe withUnsafeTemporaryAllocation(byteCount: max(values.count, 8), alignment: 8) { copy in
            unsafe copy.copyBytes(from: values)
            return unsafe withUnsafeTemporaryAllocation(of: CK_ATTRIBUTE.self, capacity: entries.count + 1) { array in
                for (index, entry) in entries.enumerated() {
                    let value = unsafe copy.baseAddress.unsafelyUnwrapped + entry.offset
                    unsafe array.initializeElement(
                        at: index,
                        to: CK_ATTRIBUTE(type: entry.type, pValue: value, ulValueLen: CK_ULONG(entry.count)))
                }
                return unsafe body(array.baseAddress.unsafelyUnwrapped, CK_ULONG(entries.count))
            }
        }
    }
}

/// The secret attributes of an object to be created: the numbers of a private key. They stay in secret memory for the
/// lifetime of this value.
public struct SecretAttributes: ~Copyable, Sendable {
    private var entries: [TemplateEntry] = []
    private var values: SecretBytes
    private var used = 0

    /// - Parameter capacity: The total size of all values, in bytes.
    public init(capacity: Int) {
        values = SecretBytes(count: capacity)
    }

    /// Adds a value: a byte string or a big integer (big-endian, without leading zeros).
    /// - Precondition: The values so far and this one fit the capacity.
    public mutating func append(_ type: AttributeType, _ value: RawSpan) {
        precondition(used + value.byteCount <= values.count, "secret attributes larger than their capacity")
        let start = used
        unsafe values.withUnsafeMutableBytes { target in
            unsafe value.withUnsafeBytes { unsafe target[start...].copyBytes(from: $0) }
        }
        entries.append(TemplateEntry(type: type.rawValue, offset: start, count: value.byteCount))
        used += value.byteCount
    }

    /// Adds a value from a secret.
    public mutating func append(_ type: AttributeType, _ value: borrowing SecretBytes) {
        value.withBytes { append(type, $0) }
    }

    /// Lends one array with `template`'s attributes, followed by the secret ones.
    func withCAttributes<Result>(
        besides template: Template, _ body: (UnsafeMutablePointer<CK_ATTRIBUTE>, CK_ULONG) -> Result
    ) -> Result {
        unsafe template.withCAttributes { plain, plainCount in
            unsafe values.withUnsafeBytes { secrets in
                let total = Int(plainCount) + entries.count
                return unsafe withUnsafeTemporaryAllocation(of: CK_ATTRIBUTE.self, capacity: total + 1) { array in
                    for index in 0..<Int(plainCount) { unsafe array.initializeElement(at: index, to: plain[index]) }
                    for (index, entry) in entries.enumerated() {
                        // The standard's templates are not const, but no library writes to the one that it creates an
                        // object from.
                        let value = unsafe UnsafeMutableRawPointer(mutating: secrets.baseAddress.unsafelyUnwrapped)
                        unsafe array.initializeElement(
                            at: Int(plainCount) + index,
                            to: CK_ATTRIBUTE(
                                type: entry.type, pValue: value + entry.offset, ulValueLen: CK_ULONG(entry.count)))
                    }
                    return unsafe body(array.baseAddress.unsafelyUnwrapped, CK_ULONG(total))
                }
            }
        }
    }
}

/// The location of an attribute's value among a template's values.
private struct TemplateEntry: Sendable {
    let type: UInt
    let offset: Int
    let count: Int
}
