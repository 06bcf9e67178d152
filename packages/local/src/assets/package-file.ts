// Resolves data files of this package: wrapper modules, stages, requirements.
import { fileURLToPath } from 'node:url'

/** `name` is relative to the package's folder. */
export function packageFile(name: string): string {
  return fileURLToPath(new URL(`../../${name}`, import.meta.url))
}
