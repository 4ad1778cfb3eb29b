// libxml2, the XML parser that Linux distributions maintain. pkg-config has the path of its headers on Debian.
#ifndef CLIBXML2_SHIM_H
#define CLIBXML2_SHIM_H

// Debian's libxml2 is built with ICU. Its header of character encodings would include ICU's headers, of another
// version than Foundation's, and a file that imports both would not compile. Without ICU only the structures of
// encoding handlers differ, and no code here uses these.
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlerror.h>

#endif
