internal import CPKCS11

// PKCS#11 v2.40 base §5.7: objects are made, copied, changed and destroyed.
extension Session {
    /// C_CreateObject.
    public mutating func createObject(_ template: Template) throws(CallError) -> ObjectHandle {
        var object: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_CreateObject", module.functions.C_CreateObject) { create in
            unsafe template.withCAttributes { unsafe create(handle, $0, $1, &object) }
        }
        return ObjectHandle(rawValue: object)
    }

    /// C_CreateObject of a private or secret key.
    public mutating func createObject(
        _ template: Template, secrets: borrowing SecretAttributes
    ) throws(CallError) -> ObjectHandle {
        var object: CK_OBJECT_HANDLE = 0
        guard let create = unsafe module.functions.C_CreateObject else {
            throw CallError(call: "C_CreateObject", cause: .missing)
        }
        try Module.check(
            "C_CreateObject",
            unsafe secrets.withCAttributes(besides: template) { unsafe create(handle, $0, $1, &object) })
        return ObjectHandle(rawValue: object)
    }

    /// C_CopyObject: a new object like `object` but for `template`'s attributes. A session object's copy of a private
    /// key stays sensitive and non-extractable.
    public mutating func copyObject(_ object: ObjectHandle, _ template: Template) throws(CallError) -> ObjectHandle {
        var copy: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_CopyObject", module.functions.C_CopyObject) { copyObject in
            unsafe template.withCAttributes { unsafe copyObject(handle, object.rawValue, $0, $1, &copy) }
        }
        return ObjectHandle(rawValue: copy)
    }

    /// C_DestroyObject.
    public mutating func destroyObject(_ object: ObjectHandle) throws(CallError) {
        try module.call("C_DestroyObject", module.functions.C_DestroyObject) {
            $0(handle, object.rawValue)
        }
    }

    /// C_SetAttributeValue.
    public mutating func setAttributes(_ template: Template, of object: ObjectHandle) throws(CallError) {
        try unsafe module.call("C_SetAttributeValue", module.functions.C_SetAttributeValue) { set in
            unsafe template.withCAttributes { unsafe set(handle, object.rawValue, $0, $1) }
        }
    }
}
