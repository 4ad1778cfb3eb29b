/// Cardholder data and what carries it: printing, interpolating, dumping or reflecting it gives the type's name and nothing else.
public protocol Unprintable: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Unprintable {
    public var description: String { "\(Self.self)(not printable)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [], displayStyle: .struct) }
}
