// The line that tells how to open the console: a link that signs a browser in once. A PAK is never shown.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@brokkr/client'

/** Without a link, for example while the broker starts, the line names the file with the PAK. */
export async function describeSignIn(url: string, adminPakFile: string): Promise<string> {
  try {
    const pak = (await readFile(adminPakFile, 'utf8')).trim()
    const client = createClient({ baseUrl: url, pak: () => pak, userAgent: 'brokkr-up', timeoutMs: 5000 })
    const link = await client.createLoginLink({ body: {} })
    return `  Open   ${link.url}        one use; another: brokkr login --link`
  } catch {
    return `  Open   ${url}        sign in with the PAK in ${adminPakFile}`
  }
}

export const adminPakFileOf = (dir: string): string => join(dir, 'keys', 'admin.pak')
