/** Version of this extension; package.json says the same. */
export const EXTENSION_VERSION = "1.0.0";

/** Version of the host link that it speaks. */
export const LINK_PROTOCOL = "1.0";
