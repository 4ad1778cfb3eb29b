import PKCS11
import TestSupport
import Testing

@Suite struct SessionTests {
    @Test("replaces an open session, with or without write access")
    func reopen() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = try token.openSession()
        #expect(try session.findObjects(matching: []).isEmpty)
        try session.reopen(in: token.slot, readWrite: true)
        #expect(try session.findObjects(matching: []).isEmpty)
        // A read-only session also uses the HSM token's login.
        try session.reopen(in: token.slot)
        #expect(try session.loggedInUser() == .user)
    }

    @Test("fails with CKR_SESSION_HANDLE_INVALID before a session is open, and works after it is opened")
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

    @Test("destroys a replaced session's objects, and keeps other sessions open")
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
