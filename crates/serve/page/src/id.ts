// Ids that the page chooses.

/** A random id of 32 hexadecimal digits. `crypto.randomUUID` is missing on pages that come over plain HTTP. */
export function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
