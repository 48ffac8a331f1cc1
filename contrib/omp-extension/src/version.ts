/** Version of this extension, as package.json says it; `a2actl omp install` writes its own. */
export const EXTENSION_VERSION = "1.0.0";

/** Version of the host link that it speaks. */
export const LINK_PROTOCOL = "1.0";
