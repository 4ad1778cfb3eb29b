import DatabaseKit
import Testing

@testable import PostgreSQLClient

@Suite("Rows of PostgreSQL")
struct PostgreSQLRowTests {
    private func row(_ type: PostgreSQLType, _ cell: [UInt8]?) -> PostgreSQLRow {
        PostgreSQLRow(types: [type.rawValue], cells: [cell])
    }

    @Test("reads integers of both sizes with their sign")
    func integers() throws {
        #expect(try row(.int8, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE]).integer(0) == -2)
        #expect(try row(.int8, [0, 0, 0, 1, 0, 0, 0, 2]).integer(0) == 4_294_967_298)
        #expect(try row(.int4, [0x80, 0, 0, 0]).integer(0) == -2_147_483_648)
        #expect(try row(.int4, nil).integerIfAny(0) == nil)
    }

    @Test(
        "refuses a value whose size is not its type's, and another type",
        arguments: [(.int8, 4), (.int4, 8), (.int8, 0), (.int4, 0), (.int4, 3), (.text, 8)] as [(PostgreSQLType, Int)])
    func sizes(type: PostgreSQLType, count: Int) {
        #expect(throws: UnreadableColumn(column: 0)) {
            _ = try row(type, [UInt8](repeating: 1, count: count)).integer(0)
        }
    }
}
