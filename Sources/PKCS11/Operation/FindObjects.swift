internal import CPKCS11

extension Session {
    /// C_FindObjectsInit, C_FindObjects, C_FindObjectsFinal (PKCS#11 v2.40 base §5.7): the objects that have all of
    /// `template`'s attributes; all objects for an empty one.
    /// - Parameter limit: more matches than this are an error, so that nothing is overlooked.
    public mutating func findObjects(
        matching template: Template, limit: Int = 100_000
    ) throws(CallError) -> [ObjectHandle] {
        try unsafe module.call("C_FindObjectsInit", module.functions.C_FindObjectsInit) { initialize in
            unsafe template.withCAttributes { unsafe initialize(handle, $0, $1) }
        }
        let found: [ObjectHandle]
        do throws(CallError) {
            found = try collectObjects(limit)
        } catch {
            // The search must end even so, or the session is of no more use; the first error is the one to tell.
            try? endSearch()
            throw error
        }
        try endSearch()
        return found
    }

    private mutating func collectObjects(_ limit: Int) throws(CallError) -> [ObjectHandle] {
        var found: [ObjectHandle] = []
        var batch = [CK_OBJECT_HANDLE](repeating: 0, count: 256)
        while true {
            var count: CK_ULONG = 0
            try unsafe module.call("C_FindObjects", module.functions.C_FindObjects) {
                unsafe $0(handle, &batch, CK_ULONG(batch.count), &count)
            }
            guard count > 0 else { return found }
            guard count <= batch.count, found.count + Int(count) <= limit else {
                throw CallError(call: "C_FindObjects", cause: .implausible("more objects than \(limit)"))
            }
            found.append(contentsOf: batch.prefix(Int(count)).map(ObjectHandle.init(rawValue:)))
        }
    }

    private mutating func endSearch() throws(CallError) {
        try module.call("C_FindObjectsFinal", module.functions.C_FindObjectsFinal) { $0(handle) }
    }
}
