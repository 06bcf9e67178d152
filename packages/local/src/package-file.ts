// Files of this package that are data, not code: wrapper modules, stages, requirements. The one place that knows where they lie.
import { fileURLToPath } from 'node:url'

/** `name` is relative to the package's folder. */
export function packageFile(name: string): string {
  return fileURLToPath(new URL(`../${name}`, import.meta.url))
}
