/// Why bytes are not a frame, or why a value cannot become one. After one of these the stream has no next frame: its
/// reader closes it.
public enum FrameError: Error, Sendable, Equatable {
    /// The length prefix is smaller than a header or larger than the stream's limit.
    case length(UInt32)
    /// A type octet that this direction does not know.
    case unknownType(UInt8)
    /// The frame ends inside a field.
    case truncated
    /// Octets remain after the last field.
    case trailingBytes
    /// A field or a list is longer than its bound in ``FieldBound``.
    case fieldTooLong
    /// A text field is not well-formed UTF-8.
    case notUTF8
    /// An enumeration, boolean or optional has a value outside its set.
    case invalidValue
}
