import ArgumentParser
package import PostgreSQLClient

extension PostgreSQLURL {
    /// Parses a URL from the command line. Messages do not repeat the URL, which may contain a password.
    ///
    /// - Parameter options: the options to use instead of a password in the URL, for the message.
    package init(argument: String, insteadOfPassword options: String) throws {
        do {
            try self.init(argument)
        } catch .secret(let parameter) {
            throw ValidationError(
                "The URL must not contain a \(parameter): others can have read it in the list of processes by now, so change it. Use "
                    + "\(options).")
        } catch .reserved(let parameter) {
            throw ValidationError("The URL must not set \(parameter).")
        } catch {
            throw ValidationError("The URL \(error).")
        }
    }
}
