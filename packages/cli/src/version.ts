// Release of this build, equal to package.json (checked by a test).
export const version = '0.1.0'
