internal import CPKCS11

// Unsafe: Parameters are copies in memory that lives until `body` returns, and Cryptoki keeps no pointer after a
// call returns.

/// An algorithm with its parameters (CK_MECHANISM, PKCS#11 v2.40 base §3.5).
public enum Mechanism: Sendable, Hashable {
    /// CKD_… (PKCS#11 v2.40 §2.3.4, v3.0 §2.3.1): the function that CKM_ECDH1_DERIVE applies to the shared secret.
    public enum KeyDerivationFunction: Sendable, Hashable {
        /// No function: the derived key is the shared secret, the point's x coordinate.
        case null
        /// SP 800-56A one-step KDF with SHA-256, counter first.
        case oneStepSHA256
    }

    /// The form of CK_GCM_PARAMS: two structures have this name, and each library expects one of them.
    public enum GCMParameterForm: Sendable, Hashable, CaseIterable {
        /// The six fields of PKCS#11 v2.40 errata 01 and v3.0, with ulIvBits (SoftHSM, NSS).
        case withVectorBits
        /// The five fields of PKCS#11 v2.40 as it was first published.
        case withoutVectorBits
    }

    /// CKM_ECDH1_DERIVE. `publicPoint` is the other party's point, uncompressed (65 bytes for P-256) and without a DER
    /// wrapping: HSM tokens that accept both forms sometimes misread a point. The caller has checked that the point is
    /// on the curve.
    case ecdh1Derive(KeyDerivationFunction, sharedData: [UInt8] = [], publicPoint: [UInt8])
    /// CKM_RSA_X_509: the bare RSA operation. Decrypts and signs blocks as long as the modulus.
    case rsaX509
    /// CKM_RSA_PKCS_OAEP with SHA-256 as hash and in MGF1, and the empty label.
    case rsaOAEPSHA256
    /// CKM_SHA256_RSA_PKCS: hashes and signs.
    case rsaPKCS1SHA256
    /// CKM_RSA_PKCS: signs a DigestInfo (RFC 8017 §9.2, step 2).
    case rsaPKCS1
    /// CKM_SHA256_RSA_PKCS_PSS: hashes and signs, with MGF1-SHA256 and a salt as long as the hash, 32 bytes.
    case rsaPSSHashingSHA256
    /// CKM_RSA_PKCS_PSS: signs a SHA-256 hash, with the same parameters.
    case rsaPSSSHA256
    /// CKM_ECDSA: signs a hash; the signature is r ‖ s, each as long as the order.
    case ecdsa
    /// CKM_AES_GCM with a 16-byte tag at the ciphertext's end.
    case aesGCM(initializationVector: [UInt8], associatedData: [UInt8] = [], form: GCMParameterForm = .withVectorBits)
    /// CKM_CONCATENATE_BASE_AND_DATA: the derived key is base key ‖ data.
    case concatenateBaseAndData([UInt8])
    /// CKM_CONCATENATE_DATA_AND_BASE: the derived key is data ‖ base key.
    case concatenateDataAndBase([UInt8])
    /// CKM_SHA256_KEY_DERIVATION: the derived key is the base key's SHA-256.
    case sha256KeyDerivation
    /// CKM_HKDF_DERIVE (PKCS#11 v3.0 §2.60): extracts and expands with SHA-256 and without a salt. The template gives
    /// the derived key's size.
    case hkdfDerive(information: [UInt8])
    /// CKM_EXTRACT_KEY_FROM_KEY: the derived key is a part of the base key, from this bit on. The template gives its
    /// size.
    case extractKeyFromKey(firstBit: Int)
    /// CKM_SHA256_HMAC: the signature is the tag, 32 bytes.
    case sha256HMAC
    /// CKM_AES_CTR, whose counter is the whole block. `counterBlock` has 16 bytes.
    case aesCTR(counterBlock: [UInt8])
    case rsaKeyPairGeneration
    case ecKeyPairGeneration

    /// The mechanism's number: CKM_… (PKCS#11 v2.40 current mechanisms).
    private var type: UInt {
        switch self {
        case .ecdh1Derive: CKM_ECDH1_DERIVE
        case .rsaX509: CKM_RSA_X_509
        case .rsaOAEPSHA256: CKM_RSA_PKCS_OAEP
        case .rsaPKCS1SHA256: CKM_SHA256_RSA_PKCS
        case .rsaPKCS1: CKM_RSA_PKCS
        case .rsaPSSHashingSHA256: CKM_SHA256_RSA_PKCS_PSS
        case .rsaPSSSHA256: CKM_RSA_PKCS_PSS
        case .ecdsa: CKM_ECDSA
        case .aesGCM: CKM_AES_GCM
        case .concatenateBaseAndData: CKM_CONCATENATE_BASE_AND_DATA
        case .concatenateDataAndBase: CKM_CONCATENATE_DATA_AND_BASE
        case .sha256KeyDerivation: CKM_SHA256_KEY_DERIVATION
        case .hkdfDerive: CKM_HKDF_DERIVE
        case .extractKeyFromKey: CKM_EXTRACT_KEY_FROM_KEY
        case .sha256HMAC: CKM_SHA256_HMAC
        case .aesCTR: CKM_AES_CTR
        case .rsaKeyPairGeneration: CKM_RSA_PKCS_KEY_PAIR_GEN
        case .ecKeyPairGeneration: CKM_EC_KEY_PAIR_GEN
        }
    }

    /// Lends the mechanism as the standard's structure. Its pointers are valid only until `body` returns.
    func withCMechanism<Result>(_ body: (UnsafeMutablePointer<CK_MECHANISM>) -> Result) -> Result {
        switch self {
        case .ecdh1Derive(let function, let sharedData, let publicPoint):
            return unsafe sharedData.withMutableCopy { shared, sharedCount in
                unsafe publicPoint.withMutableCopy { point, pointCount in
                    let parameters = unsafe CK_ECDH1_DERIVE_PARAMS(
                        kdf: function.cValue, ulSharedDataLen: sharedCount, pSharedData: shared,
                        ulPublicDataLen: pointCount, pPublicData: point)
                    return unsafe withParameters(parameters, body)
                }
            }
        case .rsaOAEPSHA256:
            let parameters = unsafe CK_RSA_PKCS_OAEP_PARAMS(
                hashAlg: CKM_SHA256, mgf: CKG_MGF1_SHA256, source: CKZ_DATA_SPECIFIED, pSourceData: nil,
                ulSourceDataLen: 0)
            return unsafe withParameters(parameters, body)
        case .rsaPSSHashingSHA256, .rsaPSSSHA256:
            let parameters = CK_RSA_PKCS_PSS_PARAMS(hashAlg: CKM_SHA256, mgf: CKG_MGF1_SHA256, sLen: 32)
            return unsafe withParameters(parameters, body)
        case .aesGCM(let initializationVector, let associatedData, let form):
            return unsafe initializationVector.withMutableCopy { iv, ivCount in
                unsafe associatedData.withMutableCopy { data, dataCount in
                    switch form {
                    case .withVectorBits:
                        let parameters = unsafe CK_GCM_PARAMS(
                            pIv: iv, ulIvLen: ivCount, ulIvBits: ivCount * 8, pAAD: data, ulAADLen: dataCount,
                            ulTagBits: 128)
                        return unsafe withParameters(parameters, body)
                    case .withoutVectorBits:
                        let parameters = unsafe cpkcs11_gcm_params_without_vector_bits(
                            pIv: iv, ulIvLen: ivCount, pAAD: data, ulAADLen: dataCount, ulTagBits: 128)
                        return unsafe withParameters(parameters, body)
                    }
                }
            }
        case .concatenateBaseAndData(let data), .concatenateDataAndBase(let data):
            return unsafe data.withMutableCopy { data, count in
                unsafe withParameters(CK_KEY_DERIVATION_STRING_DATA(pData: data, ulLen: count), body)
            }
        case .hkdfDerive(let information):
            return unsafe information.withMutableCopy { information, count in
                let parameters = unsafe cpkcs11_hkdf_params(
                    bExtract: CK_BBOOL(CK_TRUE), bExpand: CK_BBOOL(CK_TRUE), prfHashMechanism: CKM_SHA256,
                    ulSaltType: CKF_HKDF_SALT_NULL, pSalt: nil, ulSaltLen: 0, hSaltKey: 0, pInfo: information,
                    ulInfoLen: count)
                return unsafe withParameters(parameters, body)
            }
        case .extractKeyFromKey(let firstBit):
            return unsafe withParameters(CK_ULONG(firstBit), body)
        case .aesCTR(let counterBlock):
            precondition(counterBlock.count == 16, "a counter block has the size of an AES block")
            var parameters = CK_AES_CTR_PARAMS()
            parameters.ulCounterBits = 128
            unsafe withUnsafeMutableBytes(of: &parameters.cb) { unsafe $0.copyBytes(from: counterBlock) }
            return unsafe withParameters(parameters, body)
        default:
            var mechanism = unsafe CK_MECHANISM(mechanism: type, pParameter: nil, ulParameterLen: 0)
            return unsafe body(&mechanism)
        }
    }

    private func withParameters<Parameters, Result>(
        _ parameters: Parameters, _ body: (UnsafeMutablePointer<CK_MECHANISM>) -> Result
    ) -> Result {
        var parameters = parameters
        return unsafe withUnsafeMutableBytes(of: &parameters) { bytes in
            var mechanism = unsafe CK_MECHANISM(
                mechanism: type, pParameter: bytes.baseAddress, ulParameterLen: CK_ULONG(bytes.count))
            return unsafe body(&mechanism)
        }
    }
}

extension Mechanism.KeyDerivationFunction {
    var cValue: UInt {
        switch self {
        case .null: CKD_NULL
        case .oneStepSHA256: CKD_SHA256_KDF_SP800
        }
    }
}

extension [UInt8] {
    /// Lends a mutable copy of the bytes to a call whose pointer is not const in the standard. `body` receives nil if
    /// there are no bytes.
    func withMutableCopy<Result>(_ body: (UnsafeMutablePointer<UInt8>?, CK_ULONG) -> Result) -> Result {
        guard !isEmpty else { return body(nil, 0) }
        return unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { copy in
            _ = unsafe copy.initialize(from: self)
            return unsafe body(copy.baseAddress, CK_ULONG(count))
        }
    }
}
