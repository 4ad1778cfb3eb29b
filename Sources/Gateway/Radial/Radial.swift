// Reads and writes the XML of Radial's Payment Service: the documents that a merchant's backend sends and receives
// (`CreditCardAuthRequest`, `WalletPaymentInformation`, `CreditCardAuthReply`), and those that the gateway exchanges
// with Radial once a payment token is decrypted. It uses no network and no HTTP, and the time is a parameter.
//
// Callers: the gateway's routes and its processor for Radial. Guarantees: libxml2 parses external documents within
// limits, without document types, entities or processing instructions. The result is either a typed value or a
// `DocumentError` that names the element without repeating any of its content. Card data is written from secret memory
// into secret memory.
//
// Where to start: `CreditCardAuthRequest(parsing:)` in Request, `CreditCardAuthReply` in Reply, `CreditCardAuthMessage`
// in Processor. Only the folder XML uses libxml2.
//
// Sources: Radial's integration page for Apple Pay ("Credit Card Auth API": request and response elements), and, for
// everything that the page omits, the schemas of the same service in eBayEnterprise/RetailOrderManagement-SDK,
// Schemas/checkout/1.0. Nothing here has ever been tested against Radial.

/// The namespace of all of Radial's documents.
public let radialNamespace = "http://api.gsicommerce.com/schema/checkout/1.0"
