import PKCS11
import SecretMemory

/// Makes an empty HSM token usable: sets its label, the security officer's PIN and the user's PIN.
public struct TokenInitialization: Sendable {
    public var modulePath: String
    /// 1 to 32 bytes of UTF-8.
    public var label: String
    public var securityOfficerPINFile: String
    public var userPINFile: String
    /// The library-specific initialisation string; empty for none.
    public var initializationString: String

    public init(
        modulePath: String, label: String, securityOfficerPINFile: String, userPINFile: String,
        initializationString: String
    ) {
        self.modulePath = modulePath
        self.label = label
        self.securityOfficerPINFile = securityOfficerPINFile
        self.userPINFile = userPINFile
        self.initializationString = initializationString
    }

    public struct Outcome: Sendable, Equatable {
        public let label: String
        public let serialNumber: String
        /// The slot in this process; other processes may see another number.
        public let slot: UInt
    }

    public struct Failure: Error, Sendable, Equatable {
        /// The program's exit status: 1 refused, 64 wrong usage, 66 a file cannot be read, 69 the library or the HSM
        /// token failed, 77 other users can read a PIN file.
        public let status: Int32
        /// One sentence for an operator.
        public let message: String
    }

    /// Makes all checks that ``run()`` makes before it changes the HSM token. Blocks.
    public func check() throws(Failure) {
        _ = try prepare()
    }

    /// Initialises the HSM token in the first slot that has an uninitialised one. Never initialises an HSM token again,
    /// since that would destroy its keys. Blocks.
    public func run() throws(Failure) -> Outcome {
        let input = try prepare()
        let slot = input.slot
        try Self.call { () throws(CallError) in
            try slot.initializeToken(label: label, securityOfficerPIN: input.securityOfficerPIN)
        }
        // The library may show the initialised HSM token in another slot.
        let initialized = try Self.call { () throws(CallError) in
            try slot.module.slots().first { (try? $0.tokenInfo().label) == label } ?? slot
        }
        do throws(Failure) {
            return try Self.call { () throws(CallError) in
                var session = try initialized.openSession(readWrite: true)
                try session.logIn(.securityOfficer, pin: input.securityOfficerPIN)
                try session.initializePIN(input.userPIN)
                try session.logOut()
                let serialNumber = try initialized.tokenInfo().serialNumber
                return Outcome(label: label, serialNumber: serialNumber, slot: initialized.identifier)
            }
        } catch {
            throw Failure(
                status: error.status,
                message: error.message
                    + " The HSM token has its label but no user PIN: set one with the vendor's tools, "
                    + "or delete the HSM token and try again.")
        }
    }

    /// The checked input: the slot of an HSM token that is not initialised, and PINs of a length that this HSM token
    /// accepts.
    private struct CheckedInput: ~Copyable {
        let slot: Slot
        let securityOfficerPIN: SecretBytes
        let userPIN: SecretBytes
    }

    private func prepare() throws(Failure) -> CheckedInput {
        guard (1...32).contains(label.utf8.count) else {
            throw Failure(status: 64, message: "The label must have 1 to 32 bytes of UTF-8.")
        }
        let securityOfficerPIN = try readPIN(securityOfficerPINFile)
        let userPIN = try readPIN(userPINFile)
        let module = try load()
        let (slot, hsmToken) = try Self.call { () throws(CallError) in try emptySlot(of: module) }.get()
        for (pin, path) in [(securityOfficerPIN.count, securityOfficerPINFile), (userPIN.count, userPINFile)] {
            guard UInt(pin) >= hsmToken.minimumPINLength, UInt(pin) <= hsmToken.maximumPINLength else {
                throw Failure(
                    status: 1,
                    message:
                        "The PIN in \(path) must have \(hsmToken.minimumPINLength) to \(hsmToken.maximumPINLength) "
                        + "bytes for this HSM token.")
            }
        }
        return CheckedInput(slot: slot, securityOfficerPIN: securityOfficerPIN, userPIN: userPIN)
    }

    private func readPIN(_ path: String) throws(Failure) -> SecretBytes {
        do {
            return try SecretBytes(contentsOfFile: path)
        } catch {
            // All programs exit with 77 if other users can read a secret file, and with 66 if the file cannot be used
            // for any other reason.
            let isExposed = if case .accessibleToOthers = error.reason { true } else { false }
            throw Failure(status: isExposed ? 77 : 66, message: "\(error).")
        }
    }

    private func load() throws(Failure) -> Module {
        do {
            return try Module(
                path: modulePath,
                initialization: initializationString.isEmpty ? .standard : .libraryParameters(initializationString))
        } catch {
            let status: Int32
            switch error {
            case .pathNotAbsolute: status = 64
            case .notLoadable, .noFunctionList: status = 66
            case .call: status = 69
            }
            throw Failure(status: status, message: error.sentence(module: modulePath))
        }
    }

    private func emptySlot(of module: Module) throws(CallError) -> Result<(Slot, TokenInfo), Failure> {
        var empty: (Slot, TokenInfo)?
        for slot in try module.slots() {
            let hsmToken = try slot.tokenInfo()
            if hsmToken.flags.contains(.tokenInitialized) {
                if hsmToken.label == label {
                    return .failure(
                        Failure(
                            status: 1,
                            message:
                                "There is an HSM token \"\(label)\" already (serial number \(hsmToken.serialNumber)); "
                                + "it stays as it is."))
                }
            } else if empty == nil {
                empty = (slot, hsmToken)
            }
        }
        guard let empty else {
            return .failure(
                Failure(
                    status: 69,
                    message: "The library shows no slot with an HSM token that is not initialised."
                        + (modulePath.contains("softokn") ? " certutil -N makes a database for NSS." : "")))
        }
        return .success(empty)
    }

    @discardableResult
    private static func call<Value>(_ body: () throws(CallError) -> Value) throws(Failure) -> Value {
        do {
            return try body()
        } catch {
            throw Failure(status: 69, message: "\(error).")
        }
    }
}
