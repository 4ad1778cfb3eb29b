import PKCS11
import TestSupport
import Testing

@Suite struct SessionTests {
    @Test("Replaces a session that is stuck in an operation")
    func reopen() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = try token.openSession()
        #expect(try session.findObjects(matching: []).isEmpty)
        try session.reopen(in: token.slot, readWrite: true)
        #expect(try session.findObjects(matching: []).isEmpty)
        // A read-only session too, still under the HSM token's login.
        try session.reopen(in: token.slot)
        #expect(try session.loggedInUser() == .user)
    }

    @Test("Fails like a closed session before it is opened, and harms none when it ends")
    func closed() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = Session(closedIn: token.slot)
        let isOpen = session.isOpen
        #expect(!isOpen)
        do {
            _ = try session.loggedInUser()
            Issue.record("a session that is not open answered")
        } catch {
            #expect(error.returnValue == .sessionHandleInvalid)
        }
        try session.reopen(in: token.slot)
        #expect(try session.loggedInUser() == .user)
    }

    @Test("Loses its own session objects when it is replaced; other sessions continue")
    func objectsEnd() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = try token.openSession()
        var second = try token.openSession()
        let data: Template = [.objectClass(.data), .token(false), .private(false), .label("x"), .value([1])]
        _ = try session.createObject(data)
        #expect(try second.findObjects(matching: [.label("x")]).count == 1)
        try session.reopen(in: token.slot)
        #expect(try second.findObjects(matching: [.label("x")]).isEmpty)
    }
}
