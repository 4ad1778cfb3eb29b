package import GRDB

extension Row {
    /// A column's value, or nil for NULL where `T` is optional. GRDB's own subscripts end the process on an unexpected
    /// NULL or a value of another type, which a damaged file may hold; this throws.
    package func value<T: DatabaseValueConvertible & StatementColumnConvertible>(_ column: String) throws -> T {
        try decode(T.self, forColumn: column)
    }
}
