import Logging
import Processors
import SecretMemory
import ServerProgram

/// The file that contains the key for recognising account numbers in a processor's later responses.
struct AccountNumberKeyFile: Sendable, Equatable {
    let file: RandomKeyFile
    /// True if the gateway creates a missing file. This is permitted only if the store is an SQLite file and the
    /// configuration names no key file. Gateways that share a store need the same key, so none of them may create its
    /// own. An SQLite store has only one gateway. The gateway has locked the store when it creates the file, so no
    /// other process creates it at the same time.
    let isCreatedIfMissing: Bool

    init(path: String, isCreatedIfMissing: Bool) {
        file = RandomKeyFile(path: path)
        self.isCreatedIfMissing = isCreatedIfMissing
    }
}

extension AccountNumberKey {
    /// Returns the key in the file. Creates a missing file first if ``AccountNumberKeyFile/isCreatedIfMissing`` is
    /// true. Returns nil if `keyFile` is nil, or if the file cannot be created now, for example because the disk is full.
    /// The gateway then recognises account numbers only by their form.
    ///
    /// - Throws: a failure to start if the file cannot be read or does not contain a key.
    static func loaded(from keyFile: AccountNumberKeyFile?, logger: Logger) throws(StartFailure) -> AccountNumberKey? {
        guard let keyFile else { return nil }
        let file = keyFile.file
        if keyFile.isCreatedIfMissing, !file.exists {
            do throws(RandomKeyFile.SystemCallFault) {
                try file.create()
                logger.notice("the key for account numbers was made", metadata: ["file": "\(file.path)"])
            } catch {
                logger.warning(
                    "the key for account numbers cannot be made; until the next start they are recognised by their form alone",
                    metadata: ["file": "\(file.path)", "reason": "\(error)"])
                return nil
            }
        }
        do throws(RandomKeyFile.Fault) {
            let key = AccountNumberKey(try file.read())
            logger.info("account numbers are recognised by a key", metadata: ["key.name": "\(key.name)"])
            return key
        } catch {
            throw StartFailure(.configuration, "store.account_number_key_file: \(error)")
        }
    }
}
