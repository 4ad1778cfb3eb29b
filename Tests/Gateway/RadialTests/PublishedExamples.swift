/// The examples of Radial's integration page for Apple Pay, "Credit Card Auth API". They contain a publicly known
/// payment token of 2015. Persons and cards are fictitious.
enum PublishedExamples {
    static let request = #"""
        <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
        <CreditCardAuthRequest xmlns="http://api.gsicommerce.com/schema/checkout/1.0" requestId="1234567">
           <WalletPaymentInformation>
             <ApplePayTransactionId>84a7e17570c940f6a268d9121a4c090f1d2e22bab4da0f2054c7ba53035dc79a</ApplePayTr\#
        ansactionId>
             <EphemeralPublicKey>MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEAtpj8+ZI9S3gQ7QHCM/dLYTjdSgKdXlDDI/ezdwmHc4\#
        HosSYFdYYE/v8t2CcFwJHmceet/GNE1VRO57W3VxeAg==</EphemeralPublicKey>
             <PublicKeyHash>i3F+FlIbyhjfYqMqm3M/dpeWRO9tnD+U9BJng3tkkig=</PublicKeyHash>
             <Version>EC_v1</Version>
             <Data>GcUsL3ZgQVf9Raf7fBY+0AXsoO/5REeQWE6mROAJM4QvxJgOO6mxW1CuM1P7Ox9hQo1Qt1dg/VIS5fszNq7YhB0oQNgoE\#
        wAh7bTXEUBtmx0lzvN5EWxah0ScMbv/v+7CuakmRG6c6hO4xQlayCNGV6diFK1Ng6zNphSW53b1Di6vhqJcDnGs2tvu6wHyGfqIH6AeU\#
        mCNsiBvkHsaiiHbiWcL6BPpWuoW7y5bZK3mMxgygYgzZec/XnlV5lcJocpPDcL8ouuVU/oBMZn9ox/Ql3r9E8f3g7+uTdKZ+TEoyKIH5\#
        2VQUb1/YXU3SZ2Fr2J/oidUPz9+fTvGZkFPQvSX4G+jzYWlCQmrx6qZ0cfTY/ZcGmITSSbzKcgy35kTTNJdqmL8wqmOzfr202R3sXeGB\#
        jS1BqAm5DNzbgWHGrOoc/I=</Data>
             <Signature>MIAGCSqGSIb3DQEHAqCAMIACAQExDzANBglghkgBZQMEAgEFADCABgkqhkiG9w0BBwEAAKCAMIID4jCCA4igAwIB\#
        AgIIJEPyqAad9XcwCgYIKoZIzj0EAwIwejEuMCwGA1UEAwwlQXBwbGUgQXBwbGljYXRpb24gSW50ZWdyYXRpb24gQ0EgLSBHMzEmMCQG\#
        A1UECwwdQXBwbGUgQ2VydGlmaWNhdGlvbiBBdXRob3JpdHkxEzARBgNVBAoMCkFwcGxlIEluYy4xCzAJBgNVBAYTAlVTMB4XDTE0MDky\#
        NTIyMDYxMVoXDTE5MDkyNDIyMDYxMVowXzElMCMGA1UEAwwcZWNjLXNtcC1icm9rZXItc2lnbl9VQzQtUFJPRDEUMBIGA1UECwwLaU9T\#
        IFN5c3RlbXMxEzARBgNVBAoMCkFwcGxlIEluYy4xCzAJBgNVBAYTAlVTMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEwhV37evWx7Ih\#
        j2jdcJChIY3HsL1vLCg9hGCV2Ur0pUEbg0IO2BHzQH6DMx8cVMP36zIg1rrV1O/0komJPnwPE6OCAhEwggINMEUGCCsGAQUFBwEBBDkw\#
        NzA1BggrBgEFBQcwAYYpaHR0cDovL29jc3AuYXBwbGUuY29tL29jc3AwNC1hcHBsZWFpY2EzMDEwHQYDVR0OBBYEFJRX22/VdIGGiYl2\#
        L35XhQfnm1gkMAwGA1UdEwEB/wQCMAAwHwYDVR0jBBgwFoAUI/JJxE+T5O8n5sT2KGw/orv9LkswggEdBgNVHSAEggEUMIIBEDCCAQwG\#
        CSqGSIb3Y2QFATCB/jCBwwYIKwYBBQUHAgIwgbYMgbNSZWxpYW5jZSBvbiB0aGlzIGNlcnRpZmljYXRlIGJ5IGFueSBwYXJ0eSBhc3N1\#
        bWVzIGFjY2VwdGFuY2Ugb2YgdGhlIHRoZW4gYXBwbGljYWJsZSBzdGFuZGFyZCB0ZXJtcyBhbmQgY29uZGl0aW9ucyBvZiB1c2UsIGNl\#
        cnRpZmljYXRlIHBvbGljeSBhbmQgY2VydGlmaWNhdGlvbiBwcmFjdGljZSBzdGF0ZW1lbnRzLjA2BggrBgEFBQcCARYqaHR0cDovL3d3\#
        dy5hcHBsZS5jb20vY2VydGlmaWNhdGVhdXRob3JpdHkvMDQGA1UdHwQtMCswKaAnoCWGI2h0dHA6Ly9jcmwuYXBwbGUuY29tL2FwcGxl\#
        YWljYTMuY3JsMA4GA1UdDwEB/wQEAwIHgDAPBgkqhkiG92NkBh0EAgUAMAoGCCqGSM49BAMCA0gAMEUCIHKKnw+Soyq5mXQr1V62c0BX\#
        KpaHodYu9TWXEPUWPpbpAiEAkTecfW6+W5l0r0ADfzTCPq2YtbS39w01XIayqBNy8bEwggLuMIICdaADAgECAghJbS+/OpjalzAKBggq\#
        hkjOPQQDAjBnMRswGQYDVQQDDBJBcHBsZSBSb290IENBIC0gRzMxJjAkBgNVBAsMHUFwcGxlIENlcnRpZmljYXRpb24gQXV0aG9yaXR5\#
        MRMwEQYDVQQKDApBcHBsZSBJbmMuMQswCQYDVQQGEwJVUzAeFw0xNDA1MDYyMzQ2MzBaFw0yOTA1MDYyMzQ2MzBaMHoxLjAsBgNVBAMM\#
        JUFwcGxlIEFwcGxpY2F0aW9uIEludGVncmF0aW9uIENBIC0gRzMxJjAkBgNVBAsMHUFwcGxlIENlcnRpZmljYXRpb24gQXV0aG9yaXR5\#
        MRMwEQYDVQQKDApBcHBsZSBJbmMuMQswCQYDVQQGEwJVUzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPAXEYQZ12SF1RpeJYEHduiA\#
        ou/ee65N4I38S5PhM1bVZls1riLQl3YNIk57ugj9dhfOiMt2u2ZwvsjoKYT/VEWjgfcwgfQwRgYIKwYBBQUHAQEEOjA4MDYGCCsGAQUF\#
        BzABhipodHRwOi8vb2NzcC5hcHBsZS5jb20vb2NzcDA0LWFwcGxlcm9vdGNhZzMwHQYDVR0OBBYEFCPyScRPk+TvJ+bE9ihsP6K7/S5L\#
        MA8GA1UdEwEB/wQFMAMBAf8wHwYDVR0jBBgwFoAUu7DeoVgziJqkipnevr3rr9rLJKswNwYDVR0fBDAwLjAsoCqgKIYmaHR0cDovL2Ny\#
        bC5hcHBsZS5jb20vYXBwbGVyb290Y2FnMy5jcmwwDgYDVR0PAQH/BAQDAgEGMBAGCiqGSIb3Y2QGAg4EAgUAMAoGCCqGSM49BAMCA2cA\#
        MGQCMDrPcoNRFpmxhvs1w1bKYr/0F+3ZD3VNoo6+8ZyBXkK3ifiY95tZn5jVQQ2PnenC/gIwMi3VRCGwowV3bF3zODuQZ/0XfCwhbZZP\#
        xnJpghJvVPh6fRuZy5sJiSFhBpkPCZIdAAAxggFeMIIBWgIBATCBhjB6MS4wLAYDVQQDDCVBcHBsZSBBcHBsaWNhdGlvbiBJbnRlZ3Jh\#
        dGlvbiBDQSAtIEczMSYwJAYDVQQLDB1BcHBsZSBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTETMBEGA1UECgwKQXBwbGUgSW5jLjELMAkG\#
        A1UEBhMCVVMCCCRD8qgGnfV3MA0GCWCGSAFlAwQCAQUAoGkwGAYJKoZIhvcNAQkDMQsGCSqGSIb3DQEHATAcBgkqhkiG9w0BCQUxDxcN\#
        MTUxMjEwMTc0NDEwWjAvBgkqhkiG9w0BCQQxIgQgUiRZSvu2i+zIK3pRHZsuhRIVtn71HWaUfewTPrqSm8MwCgYIKoZIzj0EAwIERjBE\#
        AiBIumc6vmek/PlaZBYgiIsNNV99jmbRFnwnmhLMQ3REXQIgNpC4d79eJmnCLnkQS1g/WgL3g+7RXszwNXQvK+Quzx0AAAAAAAA</Sig\#
        nature>
           </WalletPaymentInformation>
           <OrderId>1</OrderId>
           <BillingFirstName>John</BillingFirstName>
           <BillingLastName>Smith</BillingLastName>
           <BillingPhoneNo>6101234567</BillingPhoneNo>
           <BillingAddress>
              <Line1>123 Main St</Line1>
              <Line2>Building 123</Line2>
              <Line3>4th Floor</Line3>
              <Line4>Apt 12</Line4>
              <City>Philadelphia</City>
              <MainDivision>PA</MainDivision>
              <CountryCode>US</CountryCode>
              <PostalCode>19019</PostalCode>
           </BillingAddress>
           <CustomerEmail>customer@sample.com</CustomerEmail>
           <CustomerIPAddress>208.247.73.130</CustomerIPAddress>
           <ShipToFirstName>John</ShipToFirstName>
           <ShipToLastName>Smith</ShipToLastName>
           <ShipToPhoneNo>6101234567</ShipToPhoneNo>
           <ShippingAddress>
              <Line1>123 Main St</Line1>
              <Line2>Building 123</Line2>
              <Line3>4th Floor</Line3>
              <Line4>Apt 12</Line4>
              <City>Philadelphia</City>
              <MainDivision>PA</MainDivision>
              <CountryCode>US</CountryCode>
              <PostalCode>19019</PostalCode>
           </ShippingAddress>
           <Features>
             <IncludePaymentAccountInformation>true</IncludePaymentAccountInformation>
           </Features>
        </CreditCardAuthRequest>
        """#

    static let reply = #"""
        <?xml version="1.0" encoding="UTF-8"?>
            <CreditCardAuthReply xmlns="http://api.gsicommerce.com/schema/checkout/1.0">
               <PaymentContext>
                  <OrderId>1</OrderId>
                  <!-- You will receive a token in the response, which is a scrambled version of the Credit Card\#
         number.
                     This token gets passed to the Order Service, not the original credit card number -->
                  <PaymentAccountUniqueId isToken="true">4054131ImpMJ6965</PaymentAccountUniqueId>
               </PaymentContext>
               <ResponseCode>APPROVED</ResponseCode>
               <AuthorizationResponseCode>AP01</AuthorizationResponseCode>
               <BankAuthorizationCode>614653</BankAuthorizationCode>
               <CVV2ResponseCode>0</CVV2ResponseCode>
               <AVSResponseCode>E</AVSResponseCode>
               <PhoneResponseCode></PhoneResponseCode> <!-- AmEX only -->
               <NameResponseCode></NameResponseCode> <!-- AmEX only -->
               <EmailResponseCode></EmailResponseCode> <!-- AmEX only -->
               <AmountAuthorized currencyCode="USD">14.99</AmountAuthorized>
               <TenderType>VC</TenderType>
               <PaymentAccountInformation>
                  <BinPrefix>4054131</BinPrefix>
                  <PanSuffix>6965</PanSuffix>
                  <OriginalPanSuffix>3238</OriginalPanSuffix>
               </PaymentAccountInformation>
            </CreditCardAuthReply>
        """#
}
