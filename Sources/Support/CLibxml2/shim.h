// libxml2, the XML parser that Linux distributions maintain. pkg-config has the path of its headers on Debian.
#ifndef CLIBXML2_SHIM_H
#define CLIBXML2_SHIM_H

// Debian's libxml2 is built with ICU, so its header for character encodings includes ICU's headers. Foundation has ICU
// in another version, and a file that imports both would not compile. Undefining LIBXML_ICU_ENABLED changes only the
// structures of encoding handlers, which no code here uses.
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlerror.h>

#endif
