// Radial's Payment Service as XML, in and out: the documents that a merchant's backend sends and gets
// (`CreditCardAuthRequest`, `WalletPaymentInformation`, `CreditCardAuthReply`), and those that go to Radial and come back once a
// payment token is decrypted. No network and no HTTP; the only clock is a parameter.
//
// Who calls it: the gateway's routes and its processor for Radial. What it guarantees: a document from outside is read within
// bounds by libxml2, without document types, entities or processing instructions, and is either a typed value or a
// `DocumentError` that names the element and repeats nothing of it. Card data is written from secret memory into secret memory.
//
// Where to start: `CreditCardAuthRequest(parsing:)` in Request, `CreditCardAuthReply` in Reply, `CreditCardAuthMessage` in
// Processor. The folder XML alone touches libxml2.
//
// Sources: Radial's integration page for Apple Pay ("Credit Card Auth API": request and response elements), and where it says
// nothing the schemas of the same service in eBayEnterprise/RetailOrderManagement-SDK, Schemas/checkout/1.0. Nothing here was
// ever tried against Radial.

/// The namespace of all of Radial's documents.
public let radialNamespace = "http://api.gsicommerce.com/schema/checkout/1.0"
