// A real browser: Chromium of the system, one process per test file. `BROKKR_CHROMIUM` names another program.
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

/** Path of the browser; throws with what to install and where it was looked for. */
export function findChromium(env: NodeJS.ProcessEnv = process.env): string {
  const named = env['BROKKR_CHROMIUM']
  if (named !== undefined && named !== '') return named
  const folders = (env['PATH'] ?? '').split(delimiter).filter(Boolean)
  const found = folders.flatMap((folder) => names.map((name) => join(folder, name))).find((file) => existsSync(file))
  if (found !== undefined) return found
  throw new Error(
    `no browser: ${names.join(', ')} are not in PATH (${folders.join(', ')}); install Chromium (Debian: apt-get install chromium) or set BROKKR_CHROMIUM`,
  )
}

/** Ends with the test process: its connection is a pipe. */
export const startBrowser = (): Promise<Browser> =>
  chromium.launch({
    executablePath: findChromium(),
    args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb'],
    timeout: 60_000,
  })
