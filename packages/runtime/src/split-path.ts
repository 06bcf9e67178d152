// Splits an untrusted path into names, or explains why it is invalid: no root, drive or parent reference in any spelling that a
// program could interpret as one. Pure.

export type PathParts = { parts: string[] } | { problem: string }

const pathCharsMax = 4_096
const partBytesMax = 255
const partsMax = 64

export function splitPath(path: string): PathParts {
  const reason = wholePathProblems.find(({ has }) => has(path))?.problem
  if (reason !== undefined) return { problem: reason }
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  const wrong = parts.map(partProblem).find((problem) => problem !== null)
  if (wrong) return { problem: wrong }
  return parts.length > partsMax ? { problem: `it has more than ${partsMax} parts` } : { parts }
}

/** Slashes and backslashes of other scripts, which normalization or an old code page may turn into real ones. */
const slashLike = /[\u2044\u2215\u2216\u29f5\u29f8\u29f9\ufe68\uff0f\uff3c]/

const wholePathProblems: readonly { has: (path: string) => boolean; problem: string }[] = [
  { has: (path) => path === '', problem: 'it is empty' },
  { has: (path) => path.length > pathCharsMax, problem: `it is longer than ${pathCharsMax} characters` },
  { has: (path) => /\p{Cc}/u.test(path), problem: 'it contains a NUL or another control character' },
  { has: (path) => path.startsWith('/'), problem: 'it is absolute' },
  { has: (path) => path.includes('\\'), problem: 'it contains a backslash' },
  { has: (path) => /^[a-z]:/i.test(path.normalize('NFKC')), problem: 'it names a drive' },
  { has: (path) => slashLike.test(path), problem: 'it contains a character that looks like a slash' },
  { has: (path) => /%(25)*(2e|2f|5c|00)/i.test(path), problem: 'it contains an encoded dot, slash, backslash or NUL' },
  { has: (path) => !path.isWellFormed(), problem: 'it is not well-formed text' },
]

function partProblem(part: string): string | null {
  if (Buffer.byteLength(part) > partBytesMax) return `a part is longer than ${partBytesMax} bytes`
  // Full-width and other dots, and spaces around them: `．．`, `.. `, `.\u200b.`
  const bare = part.normalize('NFKC').replace(/[\s\p{Cf}]/gu, '')
  if (/^\.*$/.test(bare)) return 'a part consists of dots'
  return bare.includes('/') || bare.includes('\\') ? 'a part contains a slash in another form' : null
}
