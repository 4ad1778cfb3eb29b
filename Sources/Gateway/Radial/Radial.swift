// Radial's Payment Service as XML, in and out: the documents that a merchant's backend sends and gets
// (`CreditCardAuthRequest`, `WalletPaymentInformation`, `CreditCardAuthReply`), and those that the gateway exchanges
// with Radial once a payment token is decrypted. No network and no HTTP; the only clock is a parameter.
//
// Callers: the gateway's routes and its processor for Radial. Guarantees: libxml2 reads a document from outside within
// limits, without document types, entities or processing instructions. The result is either a typed value or a
// `DocumentError` that names the element and repeats no part of it. Card data is written from secret memory into secret
// memory.
//
// Where to start: `CreditCardAuthRequest(parsing:)` in Request, `CreditCardAuthReply` in Reply, `CreditCardAuthMessage`
// in Processor. The folder XML alone uses libxml2.
//
// Sources: Radial's integration page for Apple Pay ("Credit Card Auth API": request and response elements), and for all
// that the page leaves out the schemas of the same service in eBayEnterprise/RetailOrderManagement-SDK,
// Schemas/checkout/1.0. Nothing here was ever tried against Radial.

/// The namespace of all of Radial's documents.
public let radialNamespace = "http://api.gsicommerce.com/schema/checkout/1.0"
