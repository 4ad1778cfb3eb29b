import Encodings
import PKCS11
import SecretMemory
import TestSupport
import Testing

@Suite("HSM tokens")
struct TokenTests {
    @Test("Shows a label without padding, and a set user PIN, after the initialisation")
    func initialised() throws {
        let token = try SoftHSM.shared().freshToken()
        let info = try token.slot.tokenInfo()
        #expect(info.label == token.label)
        #expect(info.serialNumber.count == 16)
        #expect(info.flags.isSuperset(of: [.tokenInitialized, .userPINInitialized, .loginRequired]))
        #expect(info.minimumPINLength == 4)
        #expect(info.maximumPINLength == 255)
    }

    @Test("Is found by label, by serial number and by both, if all agree")
    func selection() throws {
        let hsm = try SoftHSM.shared()
        let token = try hsm.freshToken()
        let other = try hsm.freshToken()
        let label = token.label.replacing(" ", with: "%20")
        let serial = try token.slot.tokenInfo().serialNumber
        let otherSerial = try other.slot.tokenInfo().serialNumber
        for uri in ["pkcs11:token=\(label)", "pkcs11:serial=\(serial)", "pkcs11:token=\(label);serial=\(serial)"] {
            let found = try hsm.module.slot(holding: TokenURI(uri))
            #expect(found.slot.identifier == token.slot.identifier)
            #expect(found.token.serialNumber == serial)
        }
        for uri in [
            "pkcs11:token=\(label);serial=\(otherSerial)", "pkcs11:token=\(label);model=other", "pkcs11:token=no",
        ] {
            #expect(throws: TokenSelectionError.notFound) { try hsm.module.slot(holding: TokenURI(uri)) }
        }
    }

    @Test("Is distinguished from another with its label by serial number only")
    func ambiguous() throws {
        let hsm = try SoftHSM.shared()
        let first = try hsm.freshToken(label: "same-label")
        let second = try hsm.freshToken(label: "same-label")
        let serials = try [first, second].map { try $0.slot.tokenInfo().serialNumber }
        let error = #expect(throws: TokenSelectionError.self) {
            try hsm.module.slot(holding: TokenURI("pkcs11:token=same-label"))
        }
        guard case .ambiguous(let named) = error else {
            Issue.record("not ambiguous: \(String(describing: error))")
            return
        }
        #expect(Set(named) == Set(serials))
        let found = try hsm.module.slot(holding: TokenURI("pkcs11:token=same-label;serial=\(serials[1])"))
        #expect(found.slot.identifier == second.slot.identifier)
    }

    @Test("Refuses a label of more than 32 bytes before anything is destroyed")
    func longLabel() throws {
        let token = try SoftHSM.shared().freshToken()
        let pin = SecretBytes(copying: SoftHSMToken.securityOfficerPIN)
        #expect(throws: CallError.self) {
            try token.slot.initializeToken(label: String(repeating: "a", count: 33), securityOfficerPIN: pin)
        }
        #expect(try token.slot.tokenInfo().label == token.label)
    }

    @Test("Refuses a wrong PIN as such, and logs in for every session with the right one")
    func login() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = try token.openSession()
        var other = try token.openSession()
        try session.logOut()
        let nobody = try other.loggedInUser()
        #expect(nobody == nil)
        let wrong = SecretBytes(copying: Array("9999".utf8))
        do {
            try session.logIn(.user, pin: wrong)
            Issue.record("logged in with a wrong PIN")
        } catch {
            #expect(error == CallError(call: "C_Login", cause: .returned(.pinIncorrect)))
        }
        try session.logIn(.user, pin: SecretBytes(copying: SoftHSMToken.userPIN))
        let user = try other.loggedInUser()
        #expect(user == .user)
        do {
            try session.logIn(.user, pin: SecretBytes(copying: SoftHSMToken.userPIN))
            Issue.record("logged in twice")
        } catch {
            #expect(error.returnValue == .userAlreadyLoggedIn)
        }
    }
}
