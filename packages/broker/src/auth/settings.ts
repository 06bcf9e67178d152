// Settings of sign-in links and of the form of PAKs.
import { defaultPakForm } from '@brokkr/contract/auth/pak.ts'
import { count, seconds, setting } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'

const letters = (charsMax: number) =>
  z.string().regex(new RegExp(`^[A-Za-z0-9]{1,${charsMax}}$`), `must be 1 to ${charsMax} letters and digits`)

/** Extends the section `broker`. */
export const loginSettings = {
  login_link_seconds: setting(seconds.min(1).max(3600), 300, { description: 'Time for which a sign-in link is valid, at most one hour.' }),
}

/** Form of new PAKs. PAKs in the default form stay valid, because agents generate theirs in it. */
export const pakSettings = {
  prefix: setting(letters(32), defaultPakForm.prefix, { description: 'Prefix of new PAKs.' }),
  short_token_prefix: setting(letters(16), defaultPakForm.short_token_prefix, { description: 'Beginning of the short part of new PAKs.' }),
  short_token_length: setting(count.min(5).max(64), defaultPakForm.short_token_length, {
    description: 'Length of the short part of new PAKs with its prefix; at least 4 more than the prefix.',
    unit: 'characters',
  }),
  long_token_length: setting(count.min(16).max(64), defaultPakForm.long_token_length, {
    description: 'Random bytes in the long part of new PAKs.',
    unit: 'bytes',
  }),
}

export interface PakSettings {
  readonly short_token_prefix: string
  readonly short_token_length: number
}

/** Pure. */
export function pakProblems({ short_token_prefix: prefix, short_token_length: length }: PakSettings): { path: string; problem: string }[] {
  if (length >= prefix.length + 4) return []
  return [
    { path: 'pak.short_token_length', problem: `must be at least ${prefix.length + 4}: the prefix ${prefix} and 4 random characters` },
  ]
}
