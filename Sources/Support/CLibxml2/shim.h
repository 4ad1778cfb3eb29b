// libxml2, the parser that Linux distributions keep and mend. pkg-config says where Debian keeps its headers.
#ifndef CLIBXML2_SHIM_H
#define CLIBXML2_SHIM_H

// Debian's libxml2 is built with ICU, and its header of character encodings would bring ICU's headers along, of another version
// than those that Foundation has: a file that imports both would not compile. Only structures of encoding handlers differ by it,
// which nothing here touches.
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlerror.h>

#endif
