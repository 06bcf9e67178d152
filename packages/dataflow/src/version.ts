// The release this build belongs to; the same text stands in package.json (a test compares them).
export const version = '0.1.0'
